#include "afo/serving/served_signature.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace afo {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

// RunOptions.inter_op_thread_pool, of whoever calls.
constexpr int kOfTheCaller = -1;

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

// Whether an input has as many rows as the model says, whatever the others of its request have.
bool HasFixedRows(const ServedSignature::Parameter& input) {
  return input.shape.dims() > 0 && input.shape.dim_size(0) >= 0;
}

absl::Status OtherRows(const RequestTensor& tensor, const RequestTensor& first) {
  return absl::InvalidArgumentError(absl::StrCat("input `", std::string(tensor.name), "` has ", tensor.dims[0],
                                                 " rows where `", std::string(first.name), "` has ", first.dims[0]));
}

absl::Status TooManyRows(const RequestTensor& tensor) {
  return absl::InvalidArgumentError(absl::StrCat("input `", std::string(tensor.name), "` has ", tensor.dims[0],
                                                 " rows; a request may have ", kMostRows, " at most"));
}

// A tensor without rows, or with as many as the model fixes.
absl::StatusOr<Tensor> Nothing(const ServedSignature::Parameter& parameter) {
  TensorShape shape({0});
  if (!parameter.shape.unknown_rank()) {
    auto sizes = parameter.shape.dim_sizes();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0) sizes[i] = i == 0 ? 0 : 1;
    }
    if (absl::Status status = TensorShape::BuildTensorShape(sizes, &shape); !status.ok()) return status;
  }
  Tensor tensor(parameter.type, shape);
  if (!tensor.IsInitialized()) return absl::ResourceExhaustedError("no memory is left for a request");
  if (parameter.type != tensorflow::DT_STRING && tensor.NumElements() > 0) {
    std::memset(tensor.data(), 0, tensor.TotalBytes());
  }
  return tensor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedSignature>> ServedSignature::Prepare(tensorflow::Session* session,
                                                                          SessionGroup* threads, std::string name,
                                                                          const tensorflow::SignatureDef& definition,
                                                                          bool inline_execute) {
  std::unique_ptr<ServedSignature> signature(new ServedSignature(session, threads, std::move(name)));
  tensorflow::CallableOptions callable;
  if (inline_execute) callable.mutable_run_options()->set_inter_op_thread_pool(kOfTheCaller);
  absl::Status status = signature->Read(definition, &callable);
  if (status.ok()) status = session->MakeCallable(callable, &signature->callable_);
  if (!status.ok()) return status;
  signature->has_callable_ = true;
  return signature;
}

ServedSignature::~ServedSignature() {
  if (has_callable_) session_->ReleaseCallable(callable_).IgnoreError();
}

absl::Status ServedSignature::Read(const tensorflow::SignatureDef& definition, tensorflow::CallableOptions* callable) {
  method_ = definition.method_name();
  const std::map<std::string, tensorflow::TensorInfo> inputs(definition.inputs().begin(), definition.inputs().end());
  const std::map<std::string, tensorflow::TensorInfo> outputs(definition.outputs().begin(), definition.outputs().end());
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
    outputs_.push_back({name, info.dtype(), tensorflow::PartialTensorShape(info.tensor_shape())});
    callable->add_fetch(info.name());
  }
  return absl::OkStatus();
}

bool ServedSignature::TakesBatches() const { return std::none_of(inputs_.begin(), inputs_.end(), HasFixedRows); }

absl::StatusOr<const RequestTensor*> ServedSignature::Find(const std::vector<RequestTensor>& inputs,
                                                           const Parameter& wanted) const {
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

absl::Status ServedSignature::CheckNames(const std::vector<RequestTensor>& inputs) const {
  for (const RequestTensor& given : inputs) {
    if (std::none_of(inputs_.begin(), inputs_.end(), [&](const Parameter& each) { return each.name == given.name; })) {
      std::vector<std::string> names;
      for (const Parameter& each : inputs_) names.push_back(each.name);
      return absl::InvalidArgumentError(absl::StrCat("input `", std::string(given.name.substr(0, 80)),
                                                     "` is none of signature ", name_, ", whose inputs are ",
                                                     absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> ServedSignature::Predict(const std::vector<RequestTensor>& inputs) const {
  std::vector<Tensor> feeds;
  const RequestTensor* first = nullptr;
  for (const Parameter& wanted : inputs_) {
    const absl::StatusOr<const RequestTensor*> found = Find(inputs, wanted);
    if (!found.ok()) return found.status();
    const RequestTensor& given = **found;
    if (!given.dims.empty() && !HasFixedRows(wanted)) {
      if (first == nullptr) first = &given;
      if (given.dims[0] != first->dims[0]) return OtherRows(given, *first);
      if (given.dims[0] > kMostRows) return TooManyRows(given);
    }
    absl::StatusOr<Tensor> tensor = TensorOf(given);
    if (!tensor.ok()) return tensor.status();
    feeds.push_back(*std::move(tensor));
  }
  if (inputs.size() > inputs_.size()) return CheckNames(inputs);
  std::vector<Tensor> outputs;
  if (absl::Status status = Run(feeds, &outputs); !status.ok()) return status;
  return outputs;
}

absl::Status ServedSignature::Run(const std::vector<Tensor>& feeds, std::vector<Tensor>* outputs) const {
  return threads_->Run([&](const tensorflow::thread::ThreadPoolOptions& threads) {
    tensorflow::RunMetadata metadata;
    return session_->RunCallable(callable_, feeds, outputs, &metadata, threads);
  });
}

absl::Status ServedSignature::Probe() const {
  std::vector<Tensor> feeds, outputs;
  for (const Parameter& parameter : inputs_) {
    absl::StatusOr<Tensor> nothing = Nothing(parameter);
    if (!nothing.ok()) return nothing.status();
    feeds.push_back(*std::move(nothing));
  }
  const absl::Status status = Run(feeds, &outputs);
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ? absl::OkStatus() : status;
}

}  // namespace afo
