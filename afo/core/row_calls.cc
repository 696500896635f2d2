// Lookups and updates of rows: one call for all tables of a step.

#include <vector>

#include "afo/core/call_context.h"

namespace afo {

void LookupRows(CallContext* context) {
  const bool insert = context->Int() != 0;
  const CalledBatch batch = BatchOf(context, context->RestOfNumbers());
  float* values = context->Result<float>({batch.floats.back()});
  std::int32_t* rows = context->Result<std::int32_t>({insert ? batch.keys : 0});
  if (context->failure.happened()) return;
  const std::vector<LookupOutput> to = batch.Outputs(values, insert ? rows : nullptr);
  if (!insert) return Lookup(batch.parts, to, context->parallel);
  context->Fail(FailureOf(LookupOrInsert(batch.parts, to, context->parallel)));
}

void ApplyRowGradients(CallContext* context) {
  const CalledBatch batch = BatchOf(context, context->RestOfNumbers());
  const auto gradients = context->Values<float>(4, "gradients");
  if (static_cast<std::int64_t>(gradients.size()) != batch.floats.back()) {
    context->Fail(Invalid("gradients must have " + std::to_string(batch.floats.back()) +
                          " elements for these keys, and have " + std::to_string(gradients.size())));
  }
  const std::vector<RowGradients> of = GradientsOf(context, batch, gradients.data(), 2, 3);
  const StepInfo info = StepInfoOf(context, 5);
  if (context->failure.happened()) return;
  context->Fail(FailureOf(Apply(batch.parts, of, info, context->parallel)));
}

void RemoveRows(CallContext* context) {
  const std::vector<Table*> tables = context->Tables(context->Numbers(1));
  const auto keys = context->Values<std::int64_t>(0, "keys");
  std::int64_t* removed = context->Result<std::int64_t>({});
  if (removed != nullptr) *removed = tables.front()->Remove(keys);
}

namespace {

// The rest of the attributes, for as many tables.
std::vector<EvictionOptions> PoliciesOf(CallContext* context, std::size_t count) {
  const std::vector<float>& weights = context->call().floats;
  if (weights.size() != count) context->Fail(Invalid("a policy for each table"));
  const std::vector<std::int64_t> steps = context->Ints(count), rows = context->Ints(count);
  std::vector<EvictionOptions> policies;
  for (std::size_t i = 0; i < count && !context->failure.happened(); ++i) {
    if (steps[i] < 0 || steps[i] >= kFreeStep || !(weights[i] >= 0) || rows[i] < 0) {
      context->Fail(Invalid("an option of eviction is out of its range"));
    }
    policies.push_back(
        {.unused_steps = static_cast<std::uint32_t>(steps[i]), .l2_weight = weights[i], .capacity = rows[i]});
  }
  return policies;
}

}  // namespace

void EvictRows(CallContext* context) {
  const std::vector<Table*> tables = context->Tables(context->Numbers(static_cast<std::size_t>(context->Int())));
  const std::vector<EvictionOptions> policies = PoliciesOf(context, tables.size());
  const std::uint32_t step = StepOf(context, 0), oldest = StepOf(context, 1);
  std::int64_t* evicted = context->Result<std::int64_t>({static_cast<std::int64_t>(tables.size())});
  if (evicted == nullptr) return;
  for (std::size_t i = 0; i < tables.size(); ++i) evicted[i] = tables[i]->Evict(policies[i], step, oldest);
}

}  // namespace afo
