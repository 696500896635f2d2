// The library of TensorFlow operations that native tables need.
#pragma once

#include "absl/status/status.h"

namespace afo {

// Loads `_afo_ops.tensorflow-<version>.so` into TensorFlow, once a process. It lies in this library's own directory, or
// in
// `../ops`, as in the package. NotFound where it is in neither; Unimplemented on a processor below x86-64-v3.
absl::Status LoadOperations();

}  // namespace afo
