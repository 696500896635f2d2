// Answers of TensorFlow Serving's Predict API, written without protobuf. Messages that requests have, too, are in
// predict_request.h.
//
//   PredictResponse { map<string, TensorProto> outputs = 1; ModelSpec model_spec = 2; }
//
// Values are in the field of their type (`float_val` and so on), as TensorFlow Serving has them: clients read that.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "afo/core/predict_request.h"

namespace afo {

// An output of a model. Of numbers alone.
struct ResponseTensor {
  std::string_view name;
  TensorType type = TensorType::kFloat;
  std::vector<std::int64_t> dims;
  std::string_view numbers;
};

struct PredictResponse {
  std::string_view model;
  std::string_view signature;
  std::optional<std::int64_t> version;
  std::vector<ResponseTensor> outputs;
};

// Bytes that `WritePredictResponse` writes.
std::size_t PredictResponseBytes(const PredictResponse& response);
void WritePredictResponse(const PredictResponse& response, char* to);

}  // namespace afo
