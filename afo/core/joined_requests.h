// Several requests of one model as one: their tensors by name, one behind the other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "afo/core/predict_request.h"

namespace afo {

struct JoinedRequests {
  std::vector<RequestTensor> inputs;
  // Of each request.
  std::vector<std::int64_t> rows;
  std::string wrong;  // as the end of a sentence about request `number`; '' where nothing is
  std::size_t number = 0;
};

// The requests have to outlive what is returned. They have the same inputs, of one type and, but for their rows, one
// shape, and each as many rows in all of its inputs.
[[nodiscard]] JoinedRequests JoinRequests(std::span<const PredictRequest> requests);

}  // namespace afo
