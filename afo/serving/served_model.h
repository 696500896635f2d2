// A SavedModel in memory, and one of its signatures as a function of requests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "afo/core/predict_request.h"
#include "afo/serving/processor_config.h"
#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"

namespace afo {

// Thread-safe.
class ServedModel {
 public:
  // Its errors name the directory.
  static absl::StatusOr<std::unique_ptr<ServedModel>> Load(const ProcessorConfig& config);
  ~ServedModel();

  const ProcessorConfig& config() const { return config_; }
  // Of the outputs, in the order of their names.
  const std::vector<std::string>& outputs() const { return output_names_; }

  // The outputs for the tensors of a request. InvalidArgument where it does not fit the signature: the error names the
  // input. Tensors of strings refer to the request while it is answered.
  absl::StatusOr<std::vector<tensorflow::Tensor>> Predict(const std::vector<RequestTensor>& inputs) const;

 private:
  struct Input {
    std::string name;
    tensorflow::DataType type;
    tensorflow::PartialTensorShape shape;
  };

  explicit ServedModel(ProcessorConfig config) : config_(std::move(config)) {}
  absl::Status Load();
  absl::Status ReadSignature(const tensorflow::SignatureDef& signature, tensorflow::CallableOptions* callable);
  absl::StatusOr<const RequestTensor*> Find(const std::vector<RequestTensor>& inputs, const Input& wanted) const;
  absl::Status CheckNames(const std::vector<RequestTensor>& inputs) const;

  const ProcessorConfig config_;
  tensorflow::SavedModelBundle bundle_;
  tensorflow::Session::CallableHandle callable_ = 0;
  bool has_callable_ = false;
  std::vector<Input> inputs_;  // in the order of their names
  std::vector<std::string> output_names_;
};

}  // namespace afo
