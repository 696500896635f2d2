// Embedding tables as a whole: creating them, what they hold, and what a checkpoint asks of all of them.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "afo/core/call_context.h"

namespace afo {
namespace {

// Of a counting Bloom filter, whose cells are the larger the more keys and the fewer false positives there are. As in
// the job file: `max_element_size` and `false_positive_probability` of afo/job/embedding.py.
constexpr std::int64_t kMostKeys = 1000000000000;
constexpr float kLeastChance = 1e-9f;

void Refuse(CallContext* context, const std::string& what) {
  context->Fail(Invalid("an option of the embedding table is out of its range: " + what));
}

// floats: probability, default value, chance of a false positive.
AdmissionOptions AdmissionOf(CallContext* context, std::int64_t min_count, std::int64_t max_element_size) {
  const std::vector<float>& floats = context->call().floats;
  if (floats.size() < 3) {
    Refuse(context, "a value for each option");
    return {};
  }
  const float probability = floats[0], chance = floats[2];
  if (min_count < 1 || min_count > kMaxFrequency) Refuse(context, "min_count");
  if (!(probability > 0 && probability <= 1)) Refuse(context, "probability");
  if (max_element_size < 0 || max_element_size > kMostKeys) Refuse(context, "max_element_size");
  if (!std::isfinite(floats[1])) Refuse(context, "default_value");
  if (!(chance >= kLeastChance && chance < 1)) Refuse(context, "false_positive_probability");
  return {.min_count = static_cast<std::uint32_t>(min_count),
          .probability = probability,
          .default_value = floats[1],
          .max_element_size = max_element_size,
          .false_positive_probability = chance};
}

// Its options behind those of the optimizer, of which there are `before`.
InitializerOptions InitializerOf(CallContext* context, std::int64_t seed, std::size_t before) {
  const Call& call = context->call();
  InitializerOptions options;
  options.seed = static_cast<std::uint64_t>(seed);
  const std::string& distribution = call.texts[1];
  const std::optional<Distribution> found = DistributionOf(distribution);
  if (!found.has_value()) {
    Refuse(context, "distribution " + distribution);
    return options;
  }
  options.distribution = *found;
  for (std::size_t i = 2 + before; i < call.texts.size(); ++i) {
    const float value = call.floats[i + 1];
    if (!std::isfinite(value) || !options.Set(call.texts[i], value)) Refuse(context, call.texts[i]);
  }
  return options;
}

// ints: dim, slots, seed, shard bits, min_count, max_element_size, type of the weights, options of the optimizer.
// floats: those of `AdmissionOf`, then a value for each option of the optimizer, then of the initializer.
// texts: rule, distribution, the names of these options.
TableOptions TableOptionsOf(CallContext* context) {
  const std::int64_t dim = context->Int(), slots = context->Int(), seed = context->Int(), bits = context->Int();
  const std::int64_t min_count = context->Int(), max_element_size = context->Int(), type = context->Int();
  const std::int64_t count = context->Int();
  const Call& call = context->call();
  TableOptions options;
  if (call.texts.size() < 2 || call.floats.size() != call.texts.size() + 1 || count < 0 ||
      static_cast<std::size_t>(count) > call.texts.size() - 2) {
    Refuse(context, "a value for each option");
    return options;
  }
  if (dim < 1 || dim > kMaxDim || bits < 0 || bits > kMaxShardBits) Refuse(context, "width or shards");
  if (type != static_cast<int>(PartType::kFloat32) && type != static_cast<int>(PartType::kBfloat16)) {
    Refuse(context, "value_dtype");
  }
  options.dim = static_cast<std::int32_t>(dim);
  options.shard_bits = static_cast<int>(bits);
  options.weights = type == static_cast<int>(PartType::kBfloat16) ? WeightType::kBfloat16 : WeightType::kFloat32;
  const auto of_optimizer = static_cast<std::size_t>(count);
  options.optimizer = OptimizerOf(context, "the embedding table", slots, 2, 3, of_optimizer);
  options.initializer = InitializerOf(context, seed, of_optimizer);
  options.admission = AdmissionOf(context, min_count, max_element_size);
  return options;
}

// Those that the attributes name.
std::vector<Table*> NamedTables(CallContext* context) { return context->Tables(context->RestOfNumbers()); }

// Two numbers of each table: results.
template <typename First, typename Second>
void TwoOfEach(CallContext* context, First first, Second second) {
  const std::vector<Table*> tables = NamedTables(context);
  const auto count = static_cast<std::int64_t>(tables.size());
  std::int64_t* firsts = context->Result<std::int64_t>({count});
  std::int64_t* seconds = context->Result<std::int64_t>({count});
  if (context->failure.happened()) return;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    // In this order: an epoch begins after the updates that are counted.
    seconds[i] = static_cast<std::int64_t>(second(*tables[i]));
    firsts[i] = static_cast<std::int64_t>(first(*tables[i]));
  }
}

// Gives each table its number of an argument that has one for each.
template <typename Give>
void OneToEach(CallContext* context, Give give) {
  const std::vector<Table*> tables = NamedTables(context);
  const auto given = context->Values<std::int64_t>(0, "numbers");
  if (given.size() != tables.size()) {
    context->Fail(Invalid("a number for each of " + std::to_string(tables.size()) + " tables"));
  }
  if (context->failure.happened()) return;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    give(tables[i], static_cast<std::uint64_t>(std::max<std::int64_t>(given[i], 0)));
  }
}

}  // namespace

void AddTable(CallContext* context) {
  const std::int64_t number = context->Int();
  const TableOptions options = TableOptionsOf(context);
  if (context->failure.happened()) return;
  context->Fail(FailureOf(context->store().AddTable(number, options), "embedding table " + std::to_string(number)));
}

void TableSizes(CallContext* context) {
  TwoOfEach(context, [](const Table& table) { return table.size(); }, [](const Table& table) { return table.bytes(); });
}

void BeginEpoch(CallContext* context) {
  TwoOfEach(context, [](Table& table) { return table.BeginEpoch(); }, [](Table& table) { return table.powers(); });
}

void ClearTables(CallContext* context) {
  for (Table* table : NamedTables(context)) table->Clear();
}

void ForgetRemoved(CallContext* context) {
  OneToEach(context, [](Table* table, std::uint64_t before) { table->ForgetRemoved(before); });
}

void SetPowers(CallContext* context) {
  OneToEach(context, [](Table* table, std::uint64_t powers) { table->set_powers(powers); });
}

}  // namespace afo
