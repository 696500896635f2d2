// The attributes of an operation that creates something with an optimizer: `rule`, `slots`, `option_names`, `options`.
#pragma once

#include "afo/core/optimizer.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/statusor.h"

namespace afo {

// `whose`: as in "the embedding table".
absl::Status OptionOutOfRange(absl::string_view whose, absl::string_view what);

absl::StatusOr<OptimizerOptions> OptimizerOf(tensorflow::OpKernelConstruction* context, absl::string_view whose);

}  // namespace afo
