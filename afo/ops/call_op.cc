#include "afo/ops/call_op.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace afo {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Results as outputs, which are allocated in their order.
class Outputs : public Results {
 public:
  explicit Outputs(OpKernelContext* context) : context_(context) {}

  char* Allocate(PartType type, std::span<const std::int64_t> dims) override {
    const int number = next_++;
    TensorShape shape;
    if (number >= context_->num_outputs() || PartTypeOf(context_->expected_output_dtype(number)) != type ||
        !TensorShape::BuildTensorShape(absl::MakeConstSpan(dims.data(), dims.size()), &shape).ok()) {
      return nullptr;
    }
    Tensor* tensor = nullptr;
    if (!context_->allocate_output(number, shape, &tensor).ok()) return nullptr;
    // An empty tensor has no memory.
    return tensor->NumElements() == 0 ? nothing_ : static_cast<char*>(tensor->data());
  }

 private:
  OpKernelContext* const context_;
  int next_ = 0;
  alignas(64) char nothing_[64];
};

}  // namespace

absl::Status StatusOf(Failure failure) {
  switch (failure.kind) {
    case FailureKind::kNone:
      return absl::OkStatus();
    case FailureKind::kMissing:
      return absl::FailedPreconditionError(failure.words);
    case FailureKind::kConflict:
      return absl::AlreadyExistsError(failure.words);
    case FailureKind::kDamaged:
      return absl::DataLossError(failure.words);
    case FailureKind::kNoMemory:
      return absl::ResourceExhaustedError(failure.words);
    case FailureKind::kInvalid:
      break;
  }
  return absl::InvalidArgumentError(failure.words);
}

Attributes& Attributes::Int(const char* name) {
  call_->ints.push_back(Get<std::int64_t>(name));
  return *this;
}

Attributes& Attributes::Bool(const char* name) {
  call_->ints.push_back(Get<bool>(name) ? 1 : 0);
  return *this;
}

Attributes& Attributes::Type(const char* name) {
  Add(Get<DataType>(name));
  return *this;
}

Attributes& Attributes::Ints(const char* name) {
  const auto values = Get<std::vector<std::int64_t>>(name);
  call_->ints.insert(call_->ints.end(), values.begin(), values.end());
  return *this;
}

Attributes& Attributes::CountedInts(const char* name) {
  call_->ints.push_back(static_cast<std::int64_t>(Get<std::vector<std::int64_t>>(name).size()));
  return Ints(name);
}

Attributes& Attributes::Types(const char* name) {
  for (const DataType type : Get<std::vector<DataType>>(name)) Add(type);
  return *this;
}

Attributes& Attributes::Count(const char* name) {
  call_->ints.push_back(static_cast<std::int64_t>(Get<std::vector<float>>(name).size()));
  return *this;
}

Attributes& Attributes::Float(const char* name) {
  call_->floats.push_back(Get<float>(name));
  return *this;
}

Attributes& Attributes::Floats(const char* name) {
  const auto values = Get<std::vector<float>>(name);
  call_->floats.insert(call_->floats.end(), values.begin(), values.end());
  return *this;
}

Attributes& Attributes::Text(const char* name) {
  call_->texts.push_back(Get<std::string>(name));
  return *this;
}

Attributes& Attributes::Texts(const char* name) {
  const auto values = Get<std::vector<std::string>>(name);
  call_->texts.insert(call_->texts.end(), values.begin(), values.end());
  return *this;
}

void Attributes::Add(DataType type) {
  const std::optional<PartType> ours = PartTypeOf(type);
  if (!ours.has_value()) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat("a server has no numbers of type ", tensorflow::DataTypeString(type))));
  }
  call_->ints.push_back(static_cast<std::int64_t>(*ours));
}

CallOp::CallOp(tensorflow::OpKernelConstruction* context, Function function, void (*read)(Attributes*))
    : OpKernel(context) {
  call_.function = function;
  Attributes attributes(context, &call_);
  read(&attributes);
}

void CallOp::Compute(OpKernelContext* context) {
  OP_REQUIRES_VALUE(const auto tables, context,
                    BeginsStore(call_.function) ? CreatedTables(context) : TablesOf(context));
  std::vector<MessagePart> arguments;
  for (int i = 1; i < context->num_inputs(); ++i) arguments.push_back(PartOf(context->input(i)));
  Outputs outputs(context);
  OP_REQUIRES_OK(context, StatusOf(Run(call_, arguments, &tables->store(), &outputs, ThreadsOf(context))));
}

}  // namespace afo
