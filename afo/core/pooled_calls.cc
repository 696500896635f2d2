// Bags that are pooled where their rows lie: a server answers with one sum a sample instead of a row an id.
//
// For one server, all features of a step behind one another:
//   keys, splits     the different keys, as `Unique` made them for this server
//   samples [R]      how many samples each feature, a run, has
//   lengths          for each sample how many of its ids this server has
//   near | far       for each of these ids the number of its key in its table: 16 bits where they suffice, else 32; the
//                    other is empty
//   weights          for each of these ids, or empty

#include <algorithm>
#include <vector>

#include "afo/core/bfloat16.h"
#include "afo/core/call_context.h"
#include "afo/core/pooling.h"
#include "afo/core/unique.h"

namespace afo {
namespace {

// What is summed up in float before it is made short, in samples.
constexpr std::int64_t kSumsAtOnce = 256;
constexpr std::int64_t kIdCost = 10;  // in nanoseconds, about

// Arguments of a bag; those of an update follow.
enum : std::size_t { kSamples = 2, kLengths, kNear, kFar, kWeights, kRows, kCounts, kGradients, kSchedule };

struct PooledBatch : CalledBatch {
  std::vector<std::size_t> tables;   // of each run, as a place among the tables
  std::vector<std::int32_t> places;  // wide, whatever they came as
  std::vector<std::int64_t> splits;  // of all runs, each from 0
  std::vector<Bags> bags;
  std::vector<std::int64_t> first_out{0};  // where each run's samples begin in the flat answer

  std::int32_t dim(std::size_t run) const { return parts[tables[run]].table->options().dim; }

  // The rows of a run's table in a flat array of all tables.
  template <typename Float>
  TableRows<Float> Rows(std::size_t run, Float* flat) const {
    TableRows<Float> rows;
    rows.first = {flat + floats[tables[run]]};
    rows.shift = PlaceShift(1);
    rows.dim = dim(run);
    return rows;
  }
};

std::vector<std::int32_t> PlacesOf(CallContext* context) {
  const auto near = context->Values<std::uint16_t>(kNear, "near ids");
  const auto far = context->Values<std::int32_t>(kFar, "far ids");
  if (!near.empty() && !far.empty()) context->Fail(Invalid("ids are near or far, and not both"));
  return near.empty() ? std::vector<std::int32_t>(far.begin(), far.end())
                      : std::vector<std::int32_t>(near.begin(), near.end());
}

// The bags of one run; `lengths` are those of its samples, and its ids begin at `first`. Words for what is wrong.
std::string AddBags(std::size_t run, std::span<const std::int32_t> lengths, std::int64_t first,
                    std::span<const float> weights, float max_norm, std::int64_t* splits, PooledBatch* batch) {
  const auto ids = static_cast<std::int64_t>(batch->places.size()) - first;
  splits[0] = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || splits[i] + lengths[i] > ids) return "lengths and ids do not agree";
    splits[i + 1] = splits[i] + lengths[i];
  }
  Bags bags;
  bags.samples = static_cast<std::int64_t>(lengths.size());
  bags.combiner = Combiner::kSum;
  bags.max_norm = max_norm;
  bags.places = batch->places.data() + first;
  bags.weights = weights.empty() ? nullptr : weights.data() + first;
  bags.splits = splits;
  batch->bags.push_back(bags);
  const auto rows = static_cast<std::uint32_t>(batch->parts[batch->tables[run]].count);
  const bool fits = std::all_of(bags.places, bags.places + splits[bags.samples],
                                [rows](std::int32_t place) { return static_cast<std::uint32_t>(place) < rows; });
  return fits ? "" : "an id names no key";
}

// All runs; words for what is wrong.
std::string AddRuns(std::span<const std::int32_t> samples, std::span<const std::int32_t> lengths,
                    std::span<const float> weights, const std::vector<float>& norms, PooledBatch* batch) {
  batch->splits.resize(lengths.size() + samples.size());
  std::size_t sample = 0;
  std::int64_t id = 0;
  for (std::size_t run = 0; run < samples.size(); ++run) {
    if (samples[run] < 0 || sample + samples[run] > lengths.size()) return "samples and lengths do not agree";
    const std::size_t count = samples[run];
    std::string wrong = AddBags(run, lengths.subspan(sample, count), id, weights, norms[run],
                                batch->splits.data() + sample + run, batch);
    if (!wrong.empty()) return wrong;
    batch->first_out.push_back(batch->first_out.back() + static_cast<std::int64_t>(count) * batch->dim(run));
    sample += count;
    id += batch->bags.back().splits[count];
  }
  const bool ends = sample == lengths.size() && id == static_cast<std::int64_t>(batch->places.size());
  return ends ? "" : "samples, lengths and ids do not agree";
}

// The tables of the runs, the rest of the attributes.
std::vector<std::size_t> TablesOfRuns(CallContext* context, std::size_t tables) {
  std::vector<std::size_t> found;
  for (const std::int64_t table : context->RestOfInts()) {
    if (table < 0 || static_cast<std::size_t>(table) >= tables) context->Fail(Invalid("run_tables names no table"));
    found.push_back(static_cast<std::size_t>(table));
  }
  if (found.size() != context->call().floats.size()) context->Fail(Invalid("a table and a norm for each run"));
  return found;
}

PooledBatch PooledBatchOf(CallContext* context) {
  const std::vector<std::int32_t> numbers = context->Numbers(static_cast<std::size_t>(context->Int()));
  PooledBatch batch;
  static_cast<CalledBatch&>(batch) = BatchOf(context, numbers);
  batch.tables = TablesOfRuns(context, numbers.size());
  batch.places = PlacesOf(context);
  const auto samples = context->Values<std::int32_t>(kSamples, "samples");
  if (samples.size() != batch.tables.size()) context->Fail(Invalid("a number of samples for each run"));
  const auto lengths = context->Values<std::int32_t>(kLengths, "lengths");
  const auto weights = context->Values<float>(kWeights, "weights");
  if (!weights.empty() && weights.size() != batch.places.size()) context->Fail(Invalid("a weight for each id"));
  if (context->failure.happened()) return batch;
  std::string wrong = AddRuns(samples, lengths, weights, context->call().floats, &batch);
  if (!wrong.empty()) context->Fail(Invalid(std::move(wrong)));
  return batch;
}

void PoolShort(const TableRows<const float>& rows, const Bags& bags, std::int64_t first, std::int64_t last,
               std::uint16_t* out) {
  std::vector<float> sums;
  for (std::int64_t begin = first; begin < last; begin += kSumsAtOnce) {
    const std::int64_t samples = std::min(kSumsAtOnce, last - begin);
    sums.assign(static_cast<std::size_t>(samples * rows.dim), 0.0f);
    Bags mine = bags;
    mine.splits += begin;
    Pool(rows, mine, 0, samples, sums.data());
    Narrow(sums.data(), sums.size(), out + begin * rows.dim, Serial);
  }
}

// The sums of all runs, of `type`.
void PoolAll(const CallContext& context, const PooledBatch& batch, const float* rows, PartType type, char* sums) {
  for (std::size_t run = 0; run < batch.bags.size(); ++run) {
    const Bags& bags = batch.bags[run];
    const TableRows<const float> from = batch.Rows(run, rows);
    const std::int64_t cost = bags.samples == 0 ? 0 : kIdCost * (1 + bags.splits[bags.samples] / bags.samples);
    const std::int64_t at = batch.first_out[run];
    context.parallel(bags.samples, cost, [&](std::int64_t first, std::int64_t last) {
      if (type == PartType::kFloat32) return Pool(from, bags, first, last, reinterpret_cast<float*>(sums) + at);
      PoolShort(from, bags, first, last, reinterpret_cast<std::uint16_t*>(sums) + at);
    });
  }
}

// Adds to `sums`, flat as the rows, for which `rows` is room.
void SumByRow(const CallContext& context, const PooledBatch& batch, const float* gradients, float* rows, float* sums) {
  // A norm that shortens rows is in the gradient: by the rows as they are now, newer perhaps than what was pooled.
  if (std::any_of(batch.bags.begin(), batch.bags.end(), [](const Bags& bags) { return bags.max_norm > 0; })) {
    Lookup(batch.parts, batch.Outputs(rows, nullptr), context.parallel);
  }
  for (std::size_t run = 0; run < batch.bags.size(); ++run) {
    PoolGradient(batch.Rows(run, sums), batch.Rows<const float>(run, rows), batch.bags[run],
                 gradients + batch.first_out[run], 0, 1);
  }
}

// The gradients of the sums as float32; those that came as such where they are, others in `room`.
const float* PooledGradients(CallContext* context, const PooledBatch& batch, std::vector<float>* room) {
  const bool is_short = context->TypeOfArgument(kGradients) == PartType::kBfloat16;
  const std::size_t given =
      is_short ? context->arguments()[kGradients].bytes / 2 : context->Values<float>(kGradients, "gradients").size();
  if (static_cast<std::int64_t>(given) != batch.first_out.back()) {
    context->Fail(Invalid("gradients must have " + std::to_string(batch.first_out.back()) + " elements, and have " +
                          std::to_string(given)));
  }
  if (context->failure.happened()) return nullptr;
  const char* data = context->arguments()[kGradients].data;
  if (!is_short) return reinterpret_cast<const float*>(data);
  if (!MakeRoom(context, batch.first_out.back(), room)) return nullptr;
  Widen(reinterpret_cast<const std::uint16_t*>(data), given, room->data(), context->parallel);
  return room->data();
}

}  // namespace

void PoolRows(CallContext* context) {
  const bool insert = context->Int() != 0;
  const std::int64_t asked = context->Int();
  const bool is_short = asked == static_cast<std::int64_t>(PartType::kBfloat16);
  if (!is_short && asked != static_cast<std::int64_t>(PartType::kFloat32)) {
    context->Fail(Invalid("sums are float32 or bfloat16"));
  }
  const PartType type = is_short ? PartType::kBfloat16 : PartType::kFloat32;
  const PooledBatch batch = PooledBatchOf(context);
  char* sums = context->Allocate(type, std::vector<std::int64_t>{batch.first_out.back()});
  std::int32_t* numbers = context->Result<std::int32_t>({insert ? batch.keys : 0});
  // Kept, for fresh memory costs more than the work on it.
  thread_local std::vector<float> rows;
  if (context->failure.happened() || !MakeRoom(context, batch.floats.back(), &rows)) return;
  const std::vector<LookupOutput> to = batch.Outputs(rows.data(), insert ? numbers : nullptr);
  if (insert) {
    context->Fail(FailureOf(LookupOrInsert(batch.parts, to, context->parallel)));
  } else {
    Lookup(batch.parts, to, context->parallel);
  }
  if (!context->failure.happened()) PoolAll(*context, batch, rows.data(), type, sums);
}

void ApplyPooled(CallContext* context) {
  const PooledBatch batch = PooledBatchOf(context);
  const StepInfo info = StepInfoOf(context, kSchedule);
  // Kept, for fresh memory costs more than the work on it.
  thread_local std::vector<float> wide, sums, rows;
  const float* gradients = PooledGradients(context, batch, &wide);
  if (gradients == nullptr && context->failure.happened()) return;
  if (!MakeRoom(context, batch.floats.back(), &sums) || !MakeRoom(context, batch.floats.back(), &rows)) return;
  std::fill(sums.begin(), sums.end(), 0.0f);
  const std::vector<RowGradients> of = GradientsOf(context, batch, sums.data(), kRows, kCounts);
  if (context->failure.happened()) return;
  SumByRow(*context, batch, gradients, rows.data(), sums.data());
  context->Fail(FailureOf(Apply(batch.parts, of, info, context->parallel)));
}

}  // namespace afo
