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
absl::StatusOr<BatchInput> ReadBatch(tensorflow::OpKernelContext* context, const std::vector<int32_t>& numbers);

// What an update says of each table's rows, of a flat array of all gradients and two tensors with an element a key, or
// none. An error for one of another size.
absl::StatusOr<std::vector<RowGradients>> GradientsPerTable(const BatchInput& in, const float* gradients,
                                                            const tensorflow::Tensor& rows,
                                                            const tensorflow::Tensor& counts);

// Where a lookup writes each table's rows: into a flat array of all weights, and an output with an element a key, or
// none.
std::vector<LookupOutput> OutputsPerTable(const BatchInput& in, float* values, tensorflow::Tensor* rows);

// A step as a row has it, of an int64 scalar.
absl::StatusOr<std::uint32_t> StepOf(const tensorflow::Tensor& step);
// Scalars `schedule` (float, finite: what every row is multiplied by) and `step` (int64).
absl::StatusOr<StepInfo> StepInfoOf(const tensorflow::Tensor& schedule, const tensorflow::Tensor& step);

}  // namespace afo
