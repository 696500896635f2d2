#include "afo/ops/batch_input.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "afo/ops/input_checks.h"

namespace afo {
namespace {

// The numbers of an optional tensor with an element a key; null: none. An error calls one of another size `name`.
absl::StatusOr<const std::uint32_t*> PerKey(const BatchInput& in, const tensorflow::Tensor& tensor, const char* name) {
  if (tensor.NumElements() == 0) return nullptr;
  int64_t keys = 0;
  for (const TablePart& part : in.parts) keys += part.count;
  if (tensor.NumElements() != keys) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must be empty or have ", keys,
                                                   " elements as the keys, and has ", tensor.NumElements()));
  }
  return reinterpret_cast<const std::uint32_t*>(tensor.flat<int32_t>().data());
}

}  // namespace

absl::StatusOr<BatchInput> ReadBatch(tensorflow::OpKernelContext* context, const std::vector<int32_t>& numbers) {
  BatchInput in;
  TF_ASSIGN_OR_RETURN(in.tables, TablesOf(context));
  TF_ASSIGN_OR_RETURN(const std::vector<Table*> found, in.tables->Find(numbers));
  const tensorflow::Tensor& keys = context->input(1);
  if (keys.dims() != 1) return absl::InvalidArgumentError("keys must be a vector");
  TF_RETURN_IF_ERROR(CheckedSplits(context->input(2), static_cast<int64_t>(found.size()), keys.NumElements()));
  const auto splits = context->input(2).vec<int32_t>();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const int64_t count = splits(i + 1) - splits(i);
    in.parts.push_back({found[i], keys.vec<int64_t>().data() + splits(i), count});
    in.floats.push_back(in.floats.back() + count * found[i]->options().dim);
  }
  return in;
}

absl::StatusOr<std::vector<RowGradients>> GradientsPerTable(const BatchInput& in, const float* gradients,
                                                            const tensorflow::Tensor& rows,
                                                            const tensorflow::Tensor& counts) {
  TF_ASSIGN_OR_RETURN(const std::uint32_t* row, PerKey(in, rows, "rows"));
  TF_ASSIGN_OR_RETURN(const std::uint32_t* count, PerKey(in, counts, "counts"));
  std::vector<RowGradients> found;
  int64_t keys = 0;
  for (std::size_t i = 0; i < in.parts.size(); ++i) {
    found.push_back({.gradients = gradients + in.floats[i],
                     .rows = row == nullptr ? nullptr : row + keys,
                     .counts = count == nullptr ? nullptr : count + keys});
    keys += in.parts[i].count;
  }
  return found;
}

std::vector<LookupOutput> OutputsPerTable(const BatchInput& in, float* values, tensorflow::Tensor* rows) {
  auto* row = rows == nullptr ? nullptr : reinterpret_cast<std::uint32_t*>(rows->flat<int32_t>().data());
  std::vector<LookupOutput> found;
  int64_t keys = 0;
  for (std::size_t i = 0; i < in.parts.size(); ++i) {
    found.push_back({.values = values + in.floats[i], .rows = row == nullptr ? nullptr : row + keys});
    keys += in.parts[i].count;
  }
  return found;
}

absl::StatusOr<std::uint32_t> StepOf(const tensorflow::Tensor& step) {
  TF_RETURN_IF_ERROR(CheckScalar(step, "a step"));
  return static_cast<std::uint32_t>(std::clamp<int64_t>(step.scalar<int64_t>()(), 0, kFreeStep - 1));
}

absl::StatusOr<StepInfo> StepInfoOf(const tensorflow::Tensor& schedule, const tensorflow::Tensor& step) {
  TF_RETURN_IF_ERROR(CheckScalar(schedule, "the schedule"));
  TF_ASSIGN_OR_RETURN(const std::uint32_t at, StepOf(step));
  const float factor = schedule.scalar<float>()();
  if (!std::isfinite(factor)) return absl::InvalidArgumentError(absl::StrCat("the schedule is ", factor));
  return StepInfo{factor, at};
}

}  // namespace afo
