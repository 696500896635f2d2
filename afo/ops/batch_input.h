// The inputs that every operation on rows begins with: tables, keys, splits.
#pragma once

#include <vector>

#include "afo/ops/resource.h"

namespace afo {

struct BatchInput {
  tensorflow::core::RefCountPtr<EmbeddingTables> tables;
  std::vector<TablePart> parts;
  // Where each table's floats begin in a flat tensor of all rows; one more for its length.
  std::vector<int64_t> floats{0};
};

// Reads input 0 (the resource), 1 (keys) and 2 (splits) of a kernel over the tables of these numbers.
absl::Status ReadBatch(tensorflow::OpKernelContext* context, const std::vector<int32_t>& numbers, BatchInput* in);

// Of an optional tensor with an element a key: where each table's begin; nothing for an empty one. An error for one of
// another size, which is called `name`.
absl::Status ReadPerKey(const tensorflow::Tensor& tensor, const BatchInput& in, const char* name,
                        std::vector<const std::uint32_t*>* found);

// Where each table's begin in an output with an element a key.
std::vector<std::uint32_t*> PerTable(tensorflow::Tensor* tensor, const BatchInput& in);

// Where each table's rows begin in a flat array of all.
template <typename Float>
std::vector<Float*> RowsPerTable(Float* flat, const BatchInput& in) {
  std::vector<Float*> found;
  for (std::size_t i = 0; i < in.parts.size(); ++i) found.push_back(flat + in.floats[i]);
  return found;
}

// Scalars `schedule` (float) and `step` (int64).
// A step as a row has it.
std::uint32_t StepOf(const tensorflow::Tensor& step);
StepInfo StepInfoOf(const tensorflow::Tensor& schedule, const tensorflow::Tensor& step);

}  // namespace afo
