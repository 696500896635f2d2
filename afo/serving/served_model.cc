#include "afo/serving/served_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/public/session_options.h"

namespace afo {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

// The tag of graphs that are served.
constexpr char kServe[] = "serve";
// RunOptions.inter_op_thread_pool, of whoever calls.
constexpr int kOfTheCaller = -1;

template <typename Map>
std::string NamesOf(const Map& all) {
  std::vector<std::string> names;
  for (const auto& each : all) names.push_back(each.first);
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ");
}

// Whether requests and answers can have this type.
bool IsCarried(tensorflow::DataType type) { return !NameOf(static_cast<TensorType>(type)).empty(); }

absl::StatusOr<Tensor> TensorOf(const RequestTensor& from) {
  TensorShape shape;
  if (absl::Status status = TensorShape::BuildTensorShape(from.dims, &shape); !status.ok()) return status;
  Tensor tensor(static_cast<tensorflow::DataType>(from.type), shape);
  if (!tensor.IsInitialized()) return absl::ResourceExhaustedError("no memory is left for a request");
  if (from.type == TensorType::kString) {
    auto texts = tensor.flat<tstring>();
    // Nothing is copied: the request outlives the tensor.
    for (std::size_t i = 0; i < from.strings.size(); ++i) {
      texts(static_cast<std::int64_t>(i)).assign_as_view(from.strings[i].data(), from.strings[i].size());
    }
  } else if (!from.numbers.empty()) {
    std::memcpy(tensor.data(), from.numbers.data(), from.numbers.size());
  }
  return tensor;
}

std::string ShapeOf(const RequestTensor& tensor) { return absl::StrCat("[", absl::StrJoin(tensor.dims, ","), "]"); }

absl::Status OtherRows(const RequestTensor& tensor, const RequestTensor& first) {
  return absl::InvalidArgumentError(absl::StrCat("input `", std::string(tensor.name), "` has ", tensor.dims[0],
                                                 " rows where `", std::string(first.name), "` has ", first.dims[0]));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedModel>> ServedModel::Load(const ProcessorConfig& config) {
  std::unique_ptr<ServedModel> model(new ServedModel(config));
  if (absl::Status status = model->Load(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("cannot serve ", config.savedmodel_dir, ": ", status.message()));
  }
  return model;
}

ServedModel::~ServedModel() {
  if (has_callable_) bundle_.session->ReleaseCallable(callable_).IgnoreError();
}

absl::Status ServedModel::Load() {
  if (!tensorflow::MaybeSavedModelDirectory(config_.savedmodel_dir)) {
    return absl::NotFoundError("there is no SavedModel (saved_model.pb)");
  }
  tensorflow::SessionOptions options;
  options.config.set_inter_op_parallelism_threads(config_.inter_op_parallelism_threads);
  options.config.set_intra_op_parallelism_threads(config_.intra_op_parallelism_threads);
  // Of those that run operations side by side. The others, within an operation, TensorFlow has once a process.
  options.config.set_use_per_session_threads(true);
  absl::Status status = tensorflow::LoadSavedModel(options, {}, config_.savedmodel_dir, {kServe}, &bundle_);
  if (!status.ok()) return status;
  const auto& signatures = bundle_.GetSignatures();
  const auto found = signatures.find(config_.signature_name);
  if (found == signatures.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has no signature ", config_.signature_name, "; it has ", NamesOf(signatures)));
  }
  tensorflow::CallableOptions callable;
  if (config_.enable_inline_execute) callable.mutable_run_options()->set_inter_op_thread_pool(kOfTheCaller);
  status = ReadSignature(found->second, &callable);
  if (status.ok()) status = bundle_.session->MakeCallable(callable, &callable_);
  has_callable_ = status.ok();
  return status;
}

absl::Status ServedModel::ReadSignature(const tensorflow::SignatureDef& signature,
                                        tensorflow::CallableOptions* callable) {
  const std::map<std::string, tensorflow::TensorInfo> inputs(signature.inputs().begin(), signature.inputs().end());
  const std::map<std::string, tensorflow::TensorInfo> outputs(signature.outputs().begin(), signature.outputs().end());
  for (const auto& [name, info] : inputs) {
    if (!IsCarried(info.dtype())) {
      return absl::UnimplementedError(absl::StrCat(
          "its input `", name, "` is ", tensorflow::DataTypeString(info.dtype()), ", which requests cannot have"));
    }
    inputs_.push_back({name, info.dtype(), tensorflow::PartialTensorShape(info.tensor_shape())});
    callable->add_feed(info.name());
  }
  for (const auto& [name, info] : outputs) {
    if (!IsCarried(info.dtype()) || info.dtype() == tensorflow::DT_STRING) {
      return absl::UnimplementedError(absl::StrCat(
          "its output `", name, "` is ", tensorflow::DataTypeString(info.dtype()), ", which answers cannot have"));
    }
    output_names_.push_back(name);
    callable->add_fetch(info.name());
  }
  return absl::OkStatus();
}

absl::StatusOr<const RequestTensor*> ServedModel::Find(const std::vector<RequestTensor>& inputs,
                                                       const Input& wanted) const {
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const RequestTensor& each) { return each.name == wanted.name; });
  if (found == inputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("input `", wanted.name, "` is missing"));
  }
  if (static_cast<tensorflow::DataType>(found->type) != wanted.type) {
    return absl::InvalidArgumentError(absl::StrCat("input `", wanted.name, "` is ", std::string(NameOf(found->type)),
                                                   "; the model takes ",
                                                   std::string(NameOf(static_cast<TensorType>(wanted.type)))));
  }
  if (!wanted.shape.IsCompatibleWith(tensorflow::PartialTensorShape(found->dims))) {
    return absl::InvalidArgumentError(absl::StrCat("input `", wanted.name, "` has the shape ", ShapeOf(*found),
                                                   "; the model takes ", wanted.shape.DebugString()));
  }
  return &*found;
}

absl::Status ServedModel::CheckNames(const std::vector<RequestTensor>& inputs) const {
  for (const RequestTensor& given : inputs) {
    if (std::none_of(inputs_.begin(), inputs_.end(), [&](const Input& each) { return each.name == given.name; })) {
      std::vector<std::string> names;
      for (const Input& each : inputs_) names.push_back(each.name);
      return absl::InvalidArgumentError(absl::StrCat("input `", std::string(given.name.substr(0, 80)),
                                                     "` is none of signature ", config_.signature_name,
                                                     ", whose inputs are ", absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> ServedModel::Predict(const std::vector<RequestTensor>& inputs) const {
  std::vector<Tensor> feeds;
  const RequestTensor* first = nullptr;
  for (const Input& wanted : inputs_) {
    const absl::StatusOr<const RequestTensor*> found = Find(inputs, wanted);
    if (!found.ok()) return found.status();
    const RequestTensor& given = **found;
    if (!given.dims.empty()) {
      if (first == nullptr) first = &given;
      if (given.dims[0] != first->dims[0]) return OtherRows(given, *first);
    }
    absl::StatusOr<Tensor> tensor = TensorOf(given);
    if (!tensor.ok()) return tensor.status();
    feeds.push_back(*std::move(tensor));
  }
  if (inputs.size() > inputs_.size()) return CheckNames(inputs);
  std::vector<Tensor> outputs;
  tensorflow::RunMetadata metadata;
  if (absl::Status status = bundle_.session->RunCallable(callable_, feeds, &outputs, &metadata); !status.ok())
    return status;
  return outputs;
}

}  // namespace afo
