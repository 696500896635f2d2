#include "afo/core/call_context.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

namespace afo {
namespace {

std::string InWords(std::span<const std::int64_t> dims) {
  std::string words = "[";
  for (const std::int64_t dim : dims) words.append(words.size() > 1 ? "," : "").append(std::to_string(dim));
  return words.append("]");
}

// The numbers of an argument with an element a key; null: none.
const std::uint32_t* PerKey(CallContext* context, const CalledBatch& batch, std::size_t number, std::string_view name) {
  const auto values = context->Values<std::int32_t>(number, name);
  if (values.empty()) return nullptr;
  if (values.size() != batch.keys_given && values.size() != static_cast<std::size_t>(batch.keys)) {
    context->Fail(Invalid(std::string(name) + " must be empty or have " + std::to_string(batch.keys) +
                          " elements as the keys, and has " + std::to_string(values.size())));
  }
  return reinterpret_cast<const std::uint32_t*>(values.data());
}

// Whether splits of a batch are such, and words if not.
std::string WrongSplits(std::span<const std::int32_t> splits, std::size_t tables, std::size_t keys) {
  if (splits.size() < tables + 1) {
    return "splits must have " + std::to_string(tables + 1) + " elements for " + std::to_string(tables) +
           " tables, and have " + std::to_string(splits.size());
  }
  if (!std::is_sorted(splits.begin(), splits.end())) return "splits must not fall";
  if (splits.front() != 0 || static_cast<std::size_t>(splits.back()) != keys) {
    return "splits must go from 0 to the number of keys, " + std::to_string(keys);
  }
  return "";
}

}  // namespace

void CallContext::Fail(Failure with) {
  if (!failure.happened()) failure = std::move(with);
}

std::int64_t CallContext::Int() {
  const std::vector<std::int64_t> one = Ints(1);
  return one.empty() ? 0 : one.front();
}

std::vector<std::int64_t> CallContext::Ints(std::size_t count) {
  if (count > call_.ints.size() - ints_read_) {
    Fail(Invalid("a call lacks attributes"));
    return {};
  }
  const auto first = call_.ints.begin() + static_cast<std::ptrdiff_t>(ints_read_);
  ints_read_ += count;
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

std::vector<std::int32_t> CallContext::Numbers(std::size_t count) {
  std::vector<std::int32_t> numbers;
  for (const std::int64_t number : Ints(count)) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    numbers.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(number, -1, kMost)));
  }
  return numbers;
}

std::vector<Table*> CallContext::Tables(const std::vector<std::int32_t>& numbers) {
  FoundTables found = store_->FindTables(numbers);
  if (!found.missing.has_value()) return std::move(found.tables);
  Fail({FailureKind::kMissing, "there is no embedding table " + std::to_string(*found.missing) + " on this server"});
  return {};
}

DenseWeights* CallContext::Dense() {
  DenseWeights* dense = store_->dense();
  if (dense == nullptr) Fail({FailureKind::kMissing, "there are no dense weights on this server"});
  return dense;
}

const MessagePart* CallContext::Argument(std::size_t number, std::string_view name, PartType type) {
  if (number >= arguments_.size()) {
    Fail(Invalid("a call lacks " + std::string(name)));
    return nullptr;
  }
  if (arguments_[number].type == type) return &arguments_[number];
  Fail(Invalid(std::string(name) + " are of another type"));
  return nullptr;
}

void CallContext::CheckRank(std::size_t number, std::string_view name, std::size_t rank) {
  if (number >= arguments_.size() || arguments_[number].dims.size() == rank) return;
  Fail(Invalid(std::string(name) + (rank == 0 ? " must be a scalar" : " must be a vector") + ", and has the shape " +
               InWords(arguments_[number].dims)));
}

void CallContext::CheckShape(std::size_t number, std::string_view name, std::span<const std::int64_t> dims) {
  if (number >= arguments_.size() || std::ranges::equal(arguments_[number].dims, dims)) return;
  Fail(Invalid(std::string(name) + " must have the shape " + InWords(dims) + " here, and has " +
               InWords(arguments_[number].dims)));
}

char* CallContext::Allocate(PartType type, std::span<const std::int64_t> dims) {
  if (failure.happened()) return nullptr;
  char* const memory = results_->Allocate(type, dims);
  if (memory == nullptr) Fail(NoMemory("no memory is left for an answer of the shape " + InWords(dims)));
  return memory;
}

CalledBatch BatchOf(CallContext* context, const std::vector<std::int32_t>& numbers) {
  CalledBatch batch;
  const std::vector<Table*> tables = context->Tables(numbers);
  const auto keys = context->Vector<std::int64_t>(0, "keys");
  const auto splits = context->Vector<std::int32_t>(1, "splits");
  if (context->failure.happened()) return batch;
  if (std::string wrong = WrongSplits(splits, tables.size(), keys.size()); !wrong.empty()) {
    context->Fail(Invalid(std::move(wrong)));
    return batch;
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const std::int64_t count = splits[i + 1] - splits[i];
    batch.parts.push_back({tables[i], keys.data() + splits[i], count});
    batch.floats.push_back(batch.floats.back() + count * tables[i]->options().dim);
  }
  batch.keys = splits[tables.size()];
  batch.keys_given = keys.size();
  return batch;
}

std::vector<LookupOutput> CalledBatch::Outputs(float* values, std::int32_t* rows) const {
  auto* row = reinterpret_cast<std::uint32_t*>(rows);
  std::vector<LookupOutput> found;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    found.push_back({.values = values + floats[i], .rows = row == nullptr ? nullptr : row + first});
    first += parts[i].count;
  }
  return found;
}

std::vector<RowGradients> GradientsOf(CallContext* context, const CalledBatch& batch, const float* gradients,
                                      std::size_t rows, std::size_t counts) {
  const std::uint32_t* row = PerKey(context, batch, rows, "rows");
  const std::uint32_t* count = PerKey(context, batch, counts, "counts");
  std::vector<RowGradients> found;
  if (context->failure.happened()) return found;  // arrays may be shorter than what is reached below
  std::int64_t first = 0;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    found.push_back({.gradients = gradients + batch.floats[i],
                     .rows = row == nullptr ? nullptr : row + first,
                     .counts = count == nullptr ? nullptr : count + first});
    first += batch.parts[i].count;
  }
  return found;
}

std::uint32_t StepOf(CallContext* context, std::size_t number) {
  const auto step = context->Scalar<std::int64_t>(number, "a step");
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(step, 0, kFreeStep - 1));
}

StepInfo StepInfoOf(CallContext* context, std::size_t number) {
  const auto schedule = context->Scalar<float>(number, "the schedule");
  const std::uint32_t step = StepOf(context, number + 1);
  if (!std::isfinite(schedule)) context->Fail(Invalid("the schedule is " + std::to_string(schedule)));
  return StepInfo{schedule, step};
}

bool MakeRoom(CallContext* context, std::int64_t floats, std::vector<float>* room) {
  try {
    room->resize(static_cast<std::size_t>(floats));
    return true;
  } catch (const std::bad_alloc&) {
    context->Fail(NoMemory("no memory is left for " + std::to_string(floats) + " floats of a batch"));
    return false;
  }
}

Failure FailureOf(Status status) {
  if (status == Status::kOk) return {};
  return NoMemory("no memory is left for new rows of an embedding table");
}

Failure FailureOf(Creation creation, std::string_view what) {
  const std::string name(what);
  switch (creation) {
    case Creation::kOk:
      return {};
    case Creation::kConflict:
      return {FailureKind::kConflict, name + " is there with another width, optimizer or initializer"};
    case Creation::kOutOfRange:
      return Invalid("an option of " + name + " is out of its range");
    case Creation::kOutOfMemory:
      break;
  }
  return NoMemory("no memory is left for " + name);
}

OptimizerOptions OptimizerOf(CallContext* context, std::string_view whose, std::int64_t slots, std::size_t first_text,
                             std::size_t first_float, std::size_t count) {
  const auto fail = [context, whose](const std::string& what) {
    context->Fail(Invalid("an option of " + std::string(whose) + " is out of its range: " + what));
    return OptimizerOptions{};
  };
  const Call& call = context->call();
  if (call.texts.empty() || call.texts.size() < first_text + count || call.floats.size() < first_float + count) {
    return fail("a value for each option");
  }
  const std::string& rule = call.texts.front();
  const std::optional<Rule> found = RuleOf(rule);
  if (!found.has_value()) return fail("rule " + rule);
  if (slots != SlotsOf(*found)) return fail("slots of " + rule);
  OptimizerOptions options;
  options.rule = *found;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = call.texts[first_text + i];
    const float value = call.floats[first_float + i];
    if (!std::isfinite(value) || !options.Set(name, value)) return fail(name);
  }
  return options;
}

}  // namespace afo
