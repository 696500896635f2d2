// What a function of `calls.h` works with: attributes and arguments that are checked as they are read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afo/core/batch.h"
#include "afo/core/calls.h"

namespace afo {

// The first failure of reading stays, and what is read after it is empty: a function reads all that it needs, and then
// looks once whether something was wrong.
class CallContext {
 public:
  CallContext(const Call& call, std::span<const MessagePart> arguments, Store* store, Results* results,
              const Parallel& parallel)
      : parallel(parallel), call_(call), arguments_(arguments), store_(store), results_(results) {}

  const Parallel& parallel;
  Failure failure;

  const Call& call() const { return call_; }
  Store& store() { return *store_; }
  std::span<const MessagePart> arguments() const { return arguments_; }
  void Fail(Failure with);

  // The next attribute, or as many of them.
  std::int64_t Int();
  std::vector<std::int64_t> Ints(std::size_t count);
  std::vector<std::int64_t> RestOfInts() { return Ints(call_.ints.size() - ints_read_); }
  // All that are left, as numbers of tables, or the next `count`.
  std::vector<std::int32_t> Numbers(std::size_t count);
  std::vector<std::int32_t> RestOfNumbers() { return Numbers(call_.ints.size() - ints_read_); }
  std::vector<Table*> Tables(const std::vector<std::int32_t>& numbers);
  // The dense weights; null, and a failure, where there are none.
  DenseWeights* Dense();

  // Argument `number`, which an error calls `name`: any shape, a vector, a scalar, [sizes...].
  template <typename T>
  std::span<const T> Values(std::size_t number, std::string_view name) {
    const MessagePart* part = Argument(number, name, TypeOf<T>());
    return part == nullptr ? std::span<const T>()
                           : std::span<const T>(reinterpret_cast<const T*>(part->data), part->bytes / sizeof(T));
  }
  template <typename T>
  std::span<const T> Vector(std::size_t number, std::string_view name) {
    CheckRank(number, name, 1);
    return Values<T>(number, name);
  }
  template <typename T>
  T Scalar(std::size_t number, std::string_view name) {
    CheckRank(number, name, 0);
    const std::span<const T> values = Values<T>(number, name);
    return values.empty() ? T{} : values.front();
  }
  template <typename T>
  std::span<const T> Shaped(std::size_t number, std::string_view name, std::vector<std::int64_t> dims) {
    CheckShape(number, name, dims);
    return Values<T>(number, name);
  }
  PartType TypeOfArgument(std::size_t number) const {
    return number < arguments_.size() ? arguments_[number].type : PartType{};
  }

  // Memory of the next result; null, and a failure, where there is none.
  template <typename T>
  T* Result(std::vector<std::int64_t> dims) {
    return reinterpret_cast<T*>(Allocate(TypeOf<T>(), dims));
  }
  char* Allocate(PartType type, std::span<const std::int64_t> dims);
  template <typename T>
  void ScalarResult(T value) {
    if (T* to = Result<T>({}); to != nullptr) *to = value;
  }

 private:
  template <typename T>
  static constexpr PartType TypeOf();

  const MessagePart* Argument(std::size_t number, std::string_view name, PartType type);
  void CheckRank(std::size_t number, std::string_view name, std::size_t rank);
  void CheckShape(std::size_t number, std::string_view name, std::span<const std::int64_t> dims);

  const Call& call_;
  const std::span<const MessagePart> arguments_;
  Store* const store_;
  Results* const results_;
  std::size_t ints_read_ = 0;
};

template <typename T>
constexpr PartType CallContext::TypeOf() {
  if constexpr (std::is_same_v<T, float>) return PartType::kFloat32;
  if constexpr (std::is_same_v<T, std::int32_t>) return PartType::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return PartType::kInt64;
  if constexpr (std::is_same_v<T, std::uint16_t>) return PartType::kUint16;
}

// The keys of a batch by table: arguments 0 (keys) and 1 (splits).
struct CalledBatch {
  std::vector<TablePart> parts;
  // Where each table's floats begin in a flat array of all rows; one more for its length.
  std::vector<std::int64_t> floats{0};
  std::int64_t keys = 0;
  std::size_t keys_given = 0;  // with those of sets that are not meant

  // Where a lookup writes: into a flat array of all weights, and one with an element a key, or none.
  std::vector<LookupOutput> Outputs(float* values, std::int32_t* rows) const;
};

CalledBatch BatchOf(CallContext* context, const std::vector<std::int32_t>& numbers);
// What an update says of each table's rows: `gradients` flat, and arguments with an element a key, or none.
std::vector<RowGradients> GradientsOf(CallContext* context, const CalledBatch& batch, const float* gradients,
                                      std::size_t rows, std::size_t counts);
// A step as a row has it.
std::uint32_t StepOf(CallContext* context, std::size_t number);
// Arguments `number`, finite, by which every row is multiplied, and the one behind it.
StepInfo StepInfoOf(CallContext* context, std::size_t number);
// Grows `room`, which is kept for the next call.
bool MakeRoom(CallContext* context, std::int64_t floats, std::vector<float>* room);
Failure FailureOf(Status status);
Failure FailureOf(Creation creation, std::string_view what);
// The rule by its name, slots and options: `texts` from `first_text` on are the names of `floats` from `first_float`
// on.
OptimizerOptions OptimizerOf(CallContext* context, std::string_view whose, std::int64_t slots, std::size_t first_text,
                             std::size_t first_float, std::size_t count);

// The functions, by the file that has them.
void LookupRows(CallContext* context);
void ApplyRowGradients(CallContext* context);
void RemoveRows(CallContext* context);
void EvictRows(CallContext* context);
void PoolRows(CallContext* context);
void ApplyPooled(CallContext* context);
void CreateDense(CallContext* context);
void ReadDense(CallContext* context);
void ApplyDense(CallContext* context);
void MoveDense(CallContext* context);
void ResetDense(CallContext* context);
void ExportDense(CallContext* context);
void ImportDense(CallContext* context);
void ReadProgressCall(CallContext* context);
void Advance(CallContext* context);
void ExportProgress(CallContext* context);
void ImportProgress(CallContext* context);
void AddTable(CallContext* context);
void TableSizes(CallContext* context);
void BeginEpoch(CallContext* context);
void ClearTables(CallContext* context);
void ForgetRemoved(CallContext* context);
void SetPowers(CallContext* context);

}  // namespace afo
