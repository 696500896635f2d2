#include "afo/ops/batch_input.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace afo {

absl::Status ReadBatch(tensorflow::OpKernelContext* context, const std::vector<int32_t>& numbers, BatchInput* in) {
  TF_RETURN_IF_ERROR(tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), &in->tables));
  std::vector<Table*> found;
  TF_RETURN_IF_ERROR(in->tables->Find(numbers, &found));
  const tensorflow::Tensor& keys = context->input(1);
  if (keys.dims() != 1) return absl::InvalidArgumentError("keys must be a vector");
  TF_RETURN_IF_ERROR(CheckedSplits(context->input(2), static_cast<int64_t>(found.size()), keys.NumElements()));
  const auto splits = context->input(2).vec<int32_t>();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const int64_t count = splits(i + 1) - splits(i);
    in->parts.push_back({found[i], keys.vec<int64_t>().data() + splits(i), count});
    in->floats.push_back(in->floats.back() + count * found[i]->options().dim);
  }
  return absl::OkStatus();
}

absl::Status ReadPerKey(const tensorflow::Tensor& tensor, const BatchInput& in, const char* name,
                        std::vector<const std::uint32_t*>* found) {
  int64_t keys = 0;
  for (const TablePart& part : in.parts) keys += part.count;
  if (tensor.NumElements() == 0) return absl::OkStatus();
  if (tensor.NumElements() != keys) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must be empty or have ", keys,
                                                   " elements as the keys, and has ", tensor.NumElements()));
  }
  const auto* first = reinterpret_cast<const std::uint32_t*>(tensor.flat<int32_t>().data());
  for (const TablePart& part : in.parts) {
    found->push_back(first);
    first += part.count;
  }
  return absl::OkStatus();
}

std::vector<std::uint32_t*> PerTable(tensorflow::Tensor* tensor, const BatchInput& in) {
  std::vector<std::uint32_t*> found;
  auto* first = reinterpret_cast<std::uint32_t*>(tensor->flat<int32_t>().data());
  for (const TablePart& part : in.parts) {
    found.push_back(first);
    first += part.count;
  }
  return found;
}

std::uint32_t StepOf(const tensorflow::Tensor& step) {
  return static_cast<std::uint32_t>(std::clamp<int64_t>(step.scalar<int64_t>()(), 0, kFreeStep - 1));
}

StepInfo StepInfoOf(const tensorflow::Tensor& schedule, const tensorflow::Tensor& step) {
  return {schedule.scalar<float>()(), StepOf(step)};
}

}  // namespace afo
