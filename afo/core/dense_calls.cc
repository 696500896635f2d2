// Dense weights of the store, with their slots.

#include <cmath>
#include <vector>

#include "afo/core/call_context.h"

namespace afo {
namespace {

// Has all weights changed by one value each, which an error calls `name`.
void Change(CallContext* context, std::string_view name, void (DenseWeights::*change)(const float*, const Parallel&)) {
  DenseWeights* dense = context->Dense();
  if (dense == nullptr) return;
  const auto values = context->Shaped<float>(0, name, {dense->size()});
  if (!context->failure.happened()) (dense->*change)(values.data(), context->parallel);
}

}  // namespace

void CreateDense(CallContext* context) {
  constexpr std::string_view kWhose = "the dense weights";
  const std::int64_t size = context->Int(), slots = context->Int();
  const std::size_t count = context->call().floats.size();
  const OptimizerOptions options = OptimizerOf(context, kWhose, slots, 1, 0, count);
  const auto refuse = [context](const char* what) {
    context->Fail(Invalid("an option of the dense weights is out of its range: " + std::string(what)));
  };
  if (context->call().texts.size() != count + 1) refuse("a value for each option");
  if (!IsDenseRule(options)) refuse("a rule of rows");
  if (size < 0 || size > kMostDenseWeights) refuse("size");
  if (context->failure.happened()) return;
  const Creation creation = context->store().CreateDense(options, size);
  if (creation == Creation::kConflict) {
    context->Fail({FailureKind::kConflict, "the dense weights are there with another size or optimizer"});
  }
  context->Fail(FailureOf(creation, kWhose));
}

void ReadDense(CallContext* context) {
  DenseWeights* dense = context->Dense();
  if (dense == nullptr) return;
  float* weights = context->Result<float>({dense->size()});
  if (weights != nullptr) dense->Read(weights, context->parallel);
}

void ApplyDense(CallContext* context) {
  DenseWeights* dense = context->Dense();
  if (dense == nullptr) return;
  const auto gradient = context->Shaped<float>(0, "gradient", {dense->size()});
  const auto schedule = context->Shaped<float>(1, "schedule", {});
  if (context->failure.happened()) return;
  if (!std::isfinite(schedule.front())) {
    return context->Fail(Invalid("the schedule is " + std::to_string(schedule.front())));
  }
  dense->Apply(gradient.data(), schedule.front(), context->parallel);
}

void MoveDense(CallContext* context) { Change(context, "change", &DenseWeights::Move); }

void ResetDense(CallContext* context) { Change(context, "weights", &DenseWeights::Reset); }

void ExportDense(CallContext* context) {
  DenseWeights* dense = context->Dense();
  if (dense == nullptr) return;
  float* weights = context->Result<float>({dense->size()});
  float* slots = context->Result<float>({dense->slots(), dense->size()});
  std::int64_t* powers = context->Result<std::int64_t>({});
  if (context->failure.happened()) return;
  *powers = static_cast<std::int64_t>(dense->Export(weights, slots, context->parallel));
}

void ImportDense(CallContext* context) {
  DenseWeights* dense = context->Dense();
  if (dense == nullptr) return;
  const auto weights = context->Shaped<float>(0, "weights", {dense->size()});
  const auto slots = context->Shaped<float>(1, "slots", {dense->slots(), dense->size()});
  const auto powers = context->Shaped<std::int64_t>(2, "powers", {});
  if (context->failure.happened()) return;
  if (powers.front() < 0) return context->Fail(Invalid("powers must not be negative"));
  dense->Import(weights.data(), slots.data(), static_cast<std::uint64_t>(powers.front()), context->parallel);
}

}  // namespace afo
