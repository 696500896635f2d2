// TensorFlow's types of numbers, and those of the engine's arrays.
#pragma once

#include <optional>

#include "afo/core/message.h"
#include "tensorflow/core/framework/tensor.h"

namespace afo {

inline std::optional<PartType> PartTypeOf(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_FLOAT:
      return PartType::kFloat32;
    case tensorflow::DT_DOUBLE:
      return PartType::kFloat64;
    case tensorflow::DT_BFLOAT16:
      return PartType::kBfloat16;
    case tensorflow::DT_HALF:
      return PartType::kFloat16;
    case tensorflow::DT_INT8:
      return PartType::kInt8;
    case tensorflow::DT_INT16:
      return PartType::kInt16;
    case tensorflow::DT_INT32:
      return PartType::kInt32;
    case tensorflow::DT_INT64:
      return PartType::kInt64;
    case tensorflow::DT_UINT8:
      return PartType::kUint8;
    case tensorflow::DT_UINT16:
      return PartType::kUint16;
    case tensorflow::DT_UINT32:
      return PartType::kUint32;
    case tensorflow::DT_UINT64:
      return PartType::kUint64;
    case tensorflow::DT_BOOL:
      return PartType::kBool;
    default:
      return std::nullopt;
  }
}

// The array of a tensor, where it lies. Precondition: there is a type for it.
inline MessagePart PartOf(const tensorflow::Tensor& tensor) {
  const auto dims = tensor.shape().dim_sizes();
  const auto bytes = tensor.tensor_data();
  return {*PartTypeOf(tensor.dtype()), {dims.begin(), dims.end()}, bytes.data(), bytes.size()};
}

}  // namespace afo
