// Checks of an operation's inputs: a graph may bring any shape, and to read a scalar out of another ends the process.
#pragma once

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"

namespace afo {

inline absl::Status CheckShape(const tensorflow::Tensor& tensor, absl::string_view name,
                               const tensorflow::TensorShape& wanted) {
  if (tensor.shape() == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must have the shape ", wanted.DebugString(), " here, and has ",
                                                 tensor.shape().DebugString()));
}

inline absl::Status CheckScalar(const tensorflow::Tensor& tensor, absl::string_view name) {
  if (tensor.dims() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be a scalar, and has the shape ",
                                                 tensor.shape().DebugString()));
}

}  // namespace afo
