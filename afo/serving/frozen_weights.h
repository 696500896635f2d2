// Small weights of a served model as constants of its graph. They never change, so that TensorFlow computes what only
// depends on them when the model is loaded, and not for each request.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/public/session.h"

namespace afo {

// Adds to the graph of `session`, which is that of `model`, the signatures' functions with constants for the variables
// that they only read, and returns the signatures of these. What cannot be so, and large variables, stays as it is.
absl::StatusOr<tensorflow::protobuf::Map<std::string, tensorflow::SignatureDef>> FreezeWeights(
    tensorflow::Session* session, const tensorflow::MetaGraphDef& model);

}  // namespace afo
