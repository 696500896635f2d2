// A signature of a SavedModel as a function of requests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "afo/core/predict_request.h"
#include "afo/serving/session_group.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"
#include "tensorflow/core/public/session.h"

namespace afo {

// Thread-safe.
class ServedSignature {
 public:
  // Of an input or output.
  struct Parameter {
    std::string name;
    tensorflow::DataType type;
    tensorflow::PartialTensorShape shape;
  };

  // Prepares what is served of `definition`. `session` and `threads` outlive it. Unimplemented where requests or
  // answers cannot have its tensors. inline_execute: operations run on the thread that asks.
  static absl::StatusOr<std::unique_ptr<ServedSignature>> Prepare(tensorflow::Session* session, SessionGroup* threads,
                                                                  std::string name,
                                                                  const tensorflow::SignatureDef& definition,
                                                                  bool inline_execute);
  ~ServedSignature();

  const std::string& name() const { return name_; }
  const std::string& method() const { return method_; }
  // Both in the order of their names.
  const std::vector<Parameter>& inputs() const { return inputs_; }
  const std::vector<Parameter>& outputs() const { return outputs_; }

  // Whether the rows of several requests, one behind the other, are a request: no input has a fixed number of them.
  bool TakesBatches() const;

  // The outputs for the tensors of a request. InvalidArgument where it does not fit: the error names the input. Tensors
  // of strings refer to the request while it is answered.
  absl::StatusOr<std::vector<tensorflow::Tensor>> Predict(const std::vector<RequestTensor>& inputs) const;

  // Asks for no rows, so that a model whose variables or tables are not there, or are others, is found out before a
  // request comes. What a graph makes of no rows is its own matter: an error of the input is none.
  absl::Status Probe() const;

 private:
  ServedSignature(tensorflow::Session* session, SessionGroup* threads, std::string name)
      : session_(session), threads_(threads), name_(std::move(name)) {}
  absl::Status Read(const tensorflow::SignatureDef& definition, tensorflow::CallableOptions* callable);
  absl::StatusOr<const RequestTensor*> Find(const std::vector<RequestTensor>& inputs, const Parameter& wanted) const;
  absl::Status CheckNames(const std::vector<RequestTensor>& inputs) const;

  absl::Status Run(const std::vector<tensorflow::Tensor>& feeds, std::vector<tensorflow::Tensor>* outputs) const;

  tensorflow::Session* const session_;
  SessionGroup* const threads_;
  const std::string name_;
  std::string method_;
  std::vector<Parameter> inputs_, outputs_;
  tensorflow::Session::CallableHandle callable_ = 0;
  bool has_callable_ = false;
};

}  // namespace afo
