// Messages between a worker and a server: tensors into one, and the same tensors out of it, where they lie.

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/core/message.h"
#include "afo/ops/part_buffer.h"
#include "afo/ops/part_types.h"
#include "afo/ops/resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorBuffer;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

// kind: of MessageKind. wire: the type of each part in the message; its own, or bfloat16 of a float.
REGISTER_OP("AfoEncodeMessage")
    .Input("parts: T")
    .Attr("T: list(type) >= 0")
    .Attr("wire: list(type) >= 0")
    .Attr("kind: int")
    .Output("message: uint8")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    });

// A part is of its type, or a float that came as bfloat16.
REGISTER_OP("AfoDecodeMessage")
    .Input("message: uint8")
    .Attr("T: list(type) >= 0")
    .Attr("kind: int")
    .Output("parts: T")
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
      return absl::OkStatus();
    });

struct TypeName {
  DataType tensorflow;
  PartType ours;
};

// What both kernels are of: a kind, and the types of the parts.
class MessageOp : public OpKernel {
 public:
  explicit MessageOp(OpKernelConstruction* context) : OpKernel(context) {
    int kind = 0;
    std::vector<DataType> types;
    OP_REQUIRES_OK(context, context->GetAttr("kind", &kind));
    OP_REQUIRES_OK(context, context->GetAttr("T", &types));
    kind_ = static_cast<MessageKind>(kind);
    OP_REQUIRES(context, types.size() <= kMostParts, absl::InvalidArgumentError("too many tensors for a message"));
    for (const DataType type : types) {
      const std::optional<PartType> ours = PartTypeOf(type);
      OP_REQUIRES(context, ours.has_value(),
                  absl::InvalidArgumentError(
                      absl::StrCat("no message carries tensors of type ", tensorflow::DataTypeString(type))));
      types_.push_back({type, *ours});
    }
  }

 protected:
  MessageKind kind_;
  std::vector<TypeName> types_;
};

class EncodeMessageOp : public MessageOp {
 public:
  explicit EncodeMessageOp(OpKernelConstruction* context) : MessageOp(context) {
    std::vector<DataType> wire;
    OP_REQUIRES_OK(context, context->GetAttr("wire", &wire));
    OP_REQUIRES(context, wire.size() == types_.size(), absl::InvalidArgumentError("a type for each part"));
    for (std::size_t i = 0; i < wire.size(); ++i) {
      const bool narrows = types_[i].tensorflow == tensorflow::DT_FLOAT && wire[i] == tensorflow::DT_BFLOAT16;
      OP_REQUIRES(context, narrows || wire[i] == types_[i].tensorflow,
                  absl::InvalidArgumentError("a part goes as it is, or a float as bfloat16"));
      narrows_.push_back(narrows);
    }
  }

  void Compute(OpKernelContext* context) override {
    std::vector<MessagePart> parts;
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const Tensor& tensor = context->input(static_cast<int>(i));
      OP_REQUIRES(context, tensor.dims() <= kMostDims,
                  absl::InvalidArgumentError(absl::StrCat("no message carries tensors of rank ", tensor.dims())));
      MessagePart part = PartOf(tensor);
      if (narrows_[i]) {
        part.type = PartType::kBfloat16;
        part.bytes /= 2;
        part.narrows = true;
      }
      parts.push_back(std::move(part));
    }
    Tensor* message = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {static_cast<int64_t>(MessageBytes(parts))}, &message));
    WriteMessage(kind_, parts, reinterpret_cast<char*>(message->flat<std::uint8_t>().data()),
                 ThreadsOf(context));
  }

 private:
  std::vector<bool> narrows_;
};

class DecodeMessageOp : public MessageOp {
 public:
  using MessageOp::MessageOp;

  void Compute(OpKernelContext* context) override {
    const Tensor& message = context->input(0);
    const auto bytes = message.tensor_data();
    const ParsedMessage found = ParseMessage(kind_, bytes.data(), bytes.size());
    OP_REQUIRES(context, found.wrong.empty(),
                absl::DataLossError(absl::StrCat("a message of a training step ", found.wrong)));
    OP_REQUIRES(context, found.parts.size() == types_.size(),
                absl::DataLossError(absl::StrCat("a message of a training step has ", found.parts.size(),
                                                 " parts where ", types_.size(), " are expected")));
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const MessagePart& part = found.parts[i];
      OP_REQUIRES(context, part.type == types_[i].ours || Widens(types_[i], part),
                  absl::DataLossError(absl::StrCat("part ", i, " of a message of a training step is of another type")));
      TensorShape shape;
      OP_REQUIRES_OK(context, TensorShape::BuildTensorShape(part.dims, &shape));
      OP_REQUIRES_OK(context, SetOutput(context, static_cast<int>(i), shape, message, part));
    }
  }

 private:
  static bool Widens(const TypeName& type, const MessagePart& part) {
    return type.ours == PartType::kFloat32 && part.type == PartType::kBfloat16;
  }

  absl::Status SetOutput(OpKernelContext* context, int number, const TensorShape& shape, const Tensor& message,
                         const MessagePart& part) const {
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(part.data) % EIGEN_MAX_ALIGN_BYTES == 0;
    if (Widens(types_[number], part)) {
      Tensor* wide = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(number, shape, &wide));
      // Behind a header of whole words: aligned for two bytes wherever the message lies.
      Widen(reinterpret_cast<const std::uint16_t*>(part.data), part.bytes / 2, wide->flat<float>().data(),
            ThreadsOf(context));
      return absl::OkStatus();
    }
    if (part.bytes > 0 && is_aligned) {
      const tensorflow::core::RefCountPtr<TensorBuffer> buffer(new PartBuffer(message, part));
      context->set_output(number, Tensor(types_[number].tensorflow, shape, buffer.get()));
      return absl::OkStatus();
    }
    Tensor* copy = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(number, shape, &copy));
    if (part.bytes > 0) std::memcpy(const_cast<char*>(copy->tensor_data().data()), part.data, part.bytes);
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoEncodeMessage").Device(tensorflow::DEVICE_CPU), EncodeMessageOp);
REGISTER_KERNEL_BUILDER(Name("AfoDecodeMessage").Device(tensorflow::DEVICE_CPU), DecodeMessageOp);

}  // namespace
}  // namespace afo
