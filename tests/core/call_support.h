// What tests of calls need: arguments, results, a small store, and what is in it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "afo/core/calls.h"
#include "afo/core/snapshot.h"

namespace afo::testing {

template <typename T>
constexpr PartType TypeOf() {
  if constexpr (std::is_same_v<T, float>) return PartType::kFloat32;
  if constexpr (std::is_same_v<T, std::int32_t>) return PartType::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return PartType::kInt64;
  if constexpr (std::is_same_v<T, std::uint16_t>) return PartType::kUint16;
}

// On the heap and of its size, so that AddressSanitizer sees who reads behind its end.
struct Array {
  PartType type{};
  std::vector<std::int64_t> dims;
  std::size_t bytes = 0;
  std::unique_ptr<char[]> data;

  Array(PartType type, std::vector<std::int64_t> dims) : type(type), dims(std::move(dims)), bytes(SizeOf(type)) {
    for (const std::int64_t dim : this->dims) bytes *= static_cast<std::size_t>(dim);
    data.reset(new char[bytes]());
  }
  Array(PartType type, std::vector<std::int64_t> dims, const void* from) : Array(type, std::move(dims)) {
    if (bytes > 0) std::memcpy(data.get(), from, bytes);
  }
  // As those of messages, one without elements has no memory.
  MessagePart part() const { return {type, dims, bytes == 0 ? nullptr : data.get(), bytes}; }
  template <typename T>
  std::vector<T> values() const {
    const auto* first = reinterpret_cast<const T*>(data.get());
    return {first, first + bytes / sizeof(T)};
  }
};

template <typename T>
Array Shaped(std::vector<std::int64_t> dims, const std::vector<T>& values, PartType type = TypeOf<T>()) {
  return {type, std::move(dims), values.data()};
}
template <typename T>
Array Vector(const std::vector<T>& values, PartType type = TypeOf<T>()) {
  return Shaped({static_cast<std::int64_t>(values.size())}, values, type);
}
template <typename T>
Array Scalar(T value) {
  return {TypeOf<T>(), {}, &value};
}

class Arguments {
 public:
  template <typename... Arrays>
  explicit Arguments(Arrays... arrays) {
    (all.push_back(std::move(arrays)), ...);
  }
  std::vector<MessagePart> parts() const {
    std::vector<MessagePart> parts;
    for (const Array& array : all) parts.push_back(array.part());
    return parts;
  }
  std::vector<Array> all;
};

// Has no memory for the result of number `lacking`, or where all of them together take more than `most` bytes.
class HeldResults : public Results {
 public:
  explicit HeldResults(int lacking = -1, std::size_t most = SIZE_MAX) : lacking_(lacking), left_(most) {}

  char* Allocate(PartType type, std::span<const std::int64_t> dims) override {
    std::size_t bytes = SizeOf(type);
    for (const std::int64_t dim : dims) {
      if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) return nullptr;
    }
    if (static_cast<int>(all.size()) == lacking_ || bytes > left_) return nullptr;
    left_ -= bytes;
    all.emplace_back(type, std::vector<std::int64_t>(dims.begin(), dims.end()));
    return all.back().data.get();
  }
  std::vector<Array> all;

 private:
  const int lacking_;
  std::size_t left_;
};

struct Done {
  Failure failure;
  std::vector<Array> results;

  template <typename T>
  std::vector<T> values(std::size_t number) const {
    return results.at(number).type == TypeOf<T>() ? results[number].template values<T>() : std::vector<T>();
  }
};

inline Done Do(Store* store, const Call& call, const Arguments& arguments, int lacking = -1) {
  HeldResults results(lacking);
  Failure failure = Run(call, arguments.parts(), store, &results, Serial);
  return {std::move(failure), std::move(results.all)};
}

inline FailureKind KindOf(Store* store, const Call& call, const Arguments& arguments = Arguments()) {
  return Do(store, call, arguments).failure.kind;
}

// A table of constant rows, whose update takes half of the gradient.
inline Call TableCall(std::int64_t number, std::int64_t dim, float value, PartType type = PartType::kFloat32) {
  return {Function::kAddTable,
          {number, dim, 0, 1, 1, 1, 0, static_cast<std::int64_t>(type), 1},
          {1.0f, 0.0f, 0.01f, 0.5f, value},
          {"sgd", "constant", "learning_rate", "value"}};
}

inline Call DenseCall(std::int64_t size) {
  return {Function::kCreateDense, {size, 1}, {0.5f, 0.25f}, {"adagrad", "learning_rate", "initial_accumulator"}};
}

// Bytes of all that a call can change: of tables by number below 16, of the dense weights, and of the progress.
inline std::string ContentOf(Store* store) {
  std::string all = std::to_string(store->tables());
  const auto add = [&all](const auto& values) {
    all.append("|").append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  for (std::int32_t number = 0; number < 16; ++number) {
    const FoundTables found = store->FindTables(std::vector<std::int32_t>{number});
    if (found.missing.has_value()) continue;
    Table& table = *found.tables.front();
    add(std::vector<std::uint64_t>{table.powers(), table.epoch()});
    for (std::int32_t shard = 0; shard < table.shards(); ++shard) {
      const ExportRange range{.shard = shard, .most = 1u << 30};
      all += Encode(table.Export(range, table.ExportRemoved(shard, 0)).block);
      all += Encode(table.ExportCandidates(range).block) + Encode(table.ExportCells(range).block);
    }
  }
  if (DenseWeights* dense = store->dense(); dense != nullptr) {
    std::vector<float> weights(static_cast<std::size_t>(dense->size())), slots(weights.size() * dense->slots());
    add(std::vector<std::uint64_t>{dense->Export(weights.data(), slots.data(), Serial)});
    add(weights);
    add(slots);
  }
  const ProgressState state = store->progress().Export();
  add(std::vector<std::int64_t>{state.step});
  add(state.splits);
  add(state.positions);
  for (const StateArray& array : state.arrays) {
    all += std::to_string(static_cast<int>(array.type));
    add(array.dims);
    add(array.bytes);
  }
  return all;
}

}  // namespace afo::testing
