// A batch of Arrow's C data interface, a struct array, as the tensors of a request: a column for each input, in any
// order. What is trusted of it arrow_array.h says; what a column may hold, arrow_values.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "afo/core/arrow_abi.h"
#include "afo/core/arrow_values.h"
#include "afo/core/predict_request.h"

namespace afo {

// Bytes of a batch's tensors, with what stands for absent values: a PredictRequest has no more. A string counts as 16.
constexpr std::int64_t kMostBatchBytes = INT32_MAX;

struct ArrowColumns {
  std::vector<RequestTensor> inputs;  // in the order of the columns
  std::string wrong;                  // as a sentence that names the column; '' where nothing is
};

// Reads a batch. What is returned refers to its buffers, to `inputs`' names and fills.
[[nodiscard]] ArrowColumns ReadArrowColumns(const ArrowSchema& schema, const ArrowArray& batch,
                                            std::span<const ColumnInput> inputs);

}  // namespace afo
