// The operation that asks a parameter server of our own: one message there, one back, and no thread that waits.

#include "tensorflow/core/framework/op.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/core/message.h"
#include "afo/ops/call_op.h"
#include "afo/ops/part_buffer.h"
#include "afo/ops/part_types.h"
#include "afo/ops/psplus/client_registry.h"
#include "afo/psplus/message_payload.h"
#include "afo/psplus/store_service.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorBuffer;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

// parts: what the calls name, `wire` the type that each has on its way. earlier: the sequence of the question whose
// parts and results they name, too, or 0. client: its name. kind: of RequestKind. calls: a list (afo/core/call_list.h).
// sequence: of this question.
REGISTER_OP("AfoAskServer")
    .Input("earlier: int64")
    .Input("parts: T")
    .Attr("T: list(type) >= 0")
    .Attr("wire: list(type) >= 0")
    .Attr("answers: list(type) >= 0")
    .Attr("client: string")
    .Attr("server: int >= 0")
    .Attr("kind: int")
    .Attr("once: bool")
    .Attr("calls: string")
    .Attr("deadline_ms: int >= 1")
    .Output("sequence: int64")
    .Output("results: answers")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      for (int i = 1; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
      return absl::OkStatus();
    });

// The same for the desk: words there and back.
REGISTER_OP("AfoAskServerDesk")
    .Input("asker: string")
    .Input("request: string")
    .Attr("client: string")
    .Attr("server: int >= 0")
    .Attr("deadline_ms: int >= 1")
    .Output("answer: string")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// What a question is sent from: tensors as they are, and what was made short.
struct Sending {
  std::string head;
  std::vector<Tensor> tensors;
  std::vector<std::vector<std::uint16_t>> narrowed;
  std::int64_t earlier = 0;
};

absl::Status StatusOf(const psplus::Failure& failure) {
  const auto code = static_cast<std::uint32_t>(failure.code);
  if (code > psplus::kServiceCodes) return StatusOf(Failure{psplus::KindOf(failure.code), failure.words});
  switch (failure.code) {
    case psplus::Code::kDeadline:
      return absl::DeadlineExceededError(failure.words);
    case psplus::Code::kBusy:
    case psplus::Code::kTooLarge:
      return absl::ResourceExhaustedError(failure.words);
    default:
      return absl::UnavailableError(failure.words);
  }
}

// What both operations are of: a client and a server.
class AskOp : public AsyncOpKernel {
 public:
  explicit AskOp(OpKernelConstruction* context) : AsyncOpKernel(context) {
    std::int64_t deadline = 0;
    OP_REQUIRES_OK(context, context->GetAttr("client", &client_));
    OP_REQUIRES_OK(context, context->GetAttr("server", &server_));
    OP_REQUIRES_OK(context, context->GetAttr("deadline_ms", &deadline));
    deadline_ = std::chrono::milliseconds(deadline);
  }

 protected:
  using Take = std::function<absl::Status(const psplus::Outcome&)>;

  // Asks; `take` makes outputs of the reply, on a thread of the device.
  void Ask(OpKernelContext* context, psplus::Question question, Take take, DoneCallback done) const {
    const std::shared_ptr<NamedClient> client = FindClient(client_);
    OP_REQUIRES_ASYNC(context, client != nullptr, absl::UnavailableError("this process is connected to no server"),
                      done);
    question.deadline = deadline_;
    question.store_version = client->store_version();
    auto* workers = context->device()->tensorflow_cpu_worker_threads()->workers;
    client->client().Ask(static_cast<std::size_t>(server_), std::move(question),
                         [context, workers, take = std::move(take), done = std::move(done)](psplus::Outcome outcome) {
                           workers->Schedule([context, take, done, outcome = std::move(outcome)] {
                             context->SetStatus(outcome.ok() ? take(outcome) : StatusOf(outcome.failure));
                             done();
                           });
                         });
  }

 private:
  std::string client_;
  std::int64_t server_ = 0;
  std::chrono::milliseconds deadline_{};
};

class AskServerOp : public AskOp {
 public:
  explicit AskServerOp(OpKernelConstruction* context) : AskOp(context) {
    std::vector<DataType> types, wire;
    std::int64_t kind = 0;
    OP_REQUIRES_OK(context, context->GetAttr("T", &types));
    OP_REQUIRES_OK(context, context->GetAttr("wire", &wire));
    OP_REQUIRES_OK(context, context->GetAttr("answers", &answers_));
    OP_REQUIRES_OK(context, context->GetAttr("kind", &kind));
    OP_REQUIRES_OK(context, context->GetAttr("once", &once_));
    OP_REQUIRES_OK(context, context->GetAttr("calls", &calls_));
    kind_ = static_cast<std::uint32_t>(kind);
    OP_REQUIRES(context, wire.size() == types.size(), absl::InvalidArgumentError("a type for each part"));
    for (std::size_t i = 0; i < wire.size(); ++i) {
      const bool narrows = types[i] == tensorflow::DT_FLOAT && wire[i] == tensorflow::DT_BFLOAT16;
      OP_REQUIRES(context, PartTypeOf(types[i]).has_value() && (narrows || wire[i] == types[i]),
                  absl::InvalidArgumentError("a part is of numbers, and goes as it is, or a float as bfloat16"));
      narrows_.push_back(narrows);
    }
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    auto sending = std::make_shared<Sending>();
    std::vector<MessagePart> parts;
    OP_REQUIRES_OK_ASYNC(context, Collect(context, sending.get(), &parts), done);
    psplus::Question question;
    question.kind = kind_;
    question.once = once_;
    const MessageKind kind = kind_ == psplus::kPush ? MessageKind::kPush : MessageKind::kPull;
    question.payload = psplus::PayloadOf(kind, parts, &sending->head, sending);
    Ask(
        context, std::move(question),
        [this, context](const psplus::Outcome& outcome) { return SetOutputs(context, outcome); }, std::move(done));
  }

 private:
  absl::Status Collect(OpKernelContext* context, Sending* sending, std::vector<MessagePart>* parts) const {
    const Tensor& earlier = context->input(0);
    if (earlier.dims() != 0) return absl::InvalidArgumentError("earlier must be a scalar");
    sending->earlier = earlier.scalar<std::int64_t>()();
    parts->push_back({PartType::kUint8, {static_cast<std::int64_t>(calls_.size())}, calls_.data(), calls_.size()});
    parts->push_back(
        {PartType::kInt64, {}, reinterpret_cast<const char*>(&sending->earlier), sizeof(sending->earlier)});
    sending->narrowed.reserve(narrows_.size());
    for (std::size_t i = 0; i < narrows_.size(); ++i) {
      const Tensor& tensor = context->input(1 + static_cast<int>(i));
      if (tensor.dims() > kMostDims) {
        return absl::InvalidArgumentError(absl::StrCat("no message carries tensors of rank ", tensor.dims()));
      }
      sending->tensors.push_back(tensor);
      MessagePart part = PartOf(tensor);
      if (narrows_[i]) Shorten(context, &part, &sending->narrowed.emplace_back());
      parts->push_back(std::move(part));
    }
    return absl::OkStatus();
  }

  static void Shorten(OpKernelContext* context, MessagePart* part, std::vector<std::uint16_t>* room) {
    room->resize(part->bytes / sizeof(float));
    Narrow(reinterpret_cast<const float*>(part->data), room->size(), room->data(), ThreadsOf(context));
    *part = {PartType::kBfloat16, part->dims, reinterpret_cast<const char*>(room->data()),
             room->size() * sizeof(std::uint16_t)};
  }

  absl::Status SetOutputs(OpKernelContext* context, const psplus::Outcome& outcome) const {
    Tensor* sequence = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &sequence));
    sequence->scalar<std::int64_t>()() = static_cast<std::int64_t>(outcome.sequence);
    const ParsedMessage found =
        ParseMessage(MessageKind::kAnswer, outcome.reply->data(), outcome.reply->size(), Guard::kCarrier);
    if (!found.wrong.empty()) return absl::DataLossError(absl::StrCat("a server's answer ", found.wrong));
    if (found.parts.size() != answers_.size()) {
      return absl::DataLossError(absl::StrCat("a server's answer has ", found.parts.size(), " parts where ",
                                              answers_.size(), " are expected"));
    }
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      TF_RETURN_IF_ERROR(SetOutput(context, static_cast<int>(i), found.parts[i], outcome.reply));
    }
    return absl::OkStatus();
  }

  absl::Status SetOutput(OpKernelContext* context, int number, const MessagePart& part,
                         const std::shared_ptr<const psplus::Buffer>& reply) const {
    TensorShape shape;
    TF_RETURN_IF_ERROR(TensorShape::BuildTensorShape(part.dims, &shape));
    const DataType type = answers_[number];
    if (type == tensorflow::DT_FLOAT && part.type == PartType::kBfloat16) {
      Tensor* wide = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(1 + number, shape, &wide));
      Widen(reinterpret_cast<const std::uint16_t*>(part.data), part.bytes / 2, wide->flat<float>().data(),
            ThreadsOf(context));
      return absl::OkStatus();
    }
    if (PartTypeOf(type) != part.type) {
      return absl::DataLossError(absl::StrCat("part ", number, " of a server's answer is of another type"));
    }
    if (part.bytes == 0) {
      Tensor* empty = nullptr;
      return context->allocate_output(1 + number, shape, &empty);
    }
    const tensorflow::core::RefCountPtr<TensorBuffer> buffer(new PartBuffer(reply, part));
    context->set_output(1 + number, Tensor(type, shape, buffer.get()));
    return absl::OkStatus();
  }

  std::uint32_t kind_ = 0;
  bool once_ = false;
  std::string calls_;
  std::vector<bool> narrows_;
  std::vector<DataType> answers_;
};

class AskServerDeskOp : public AskOp {
 public:
  using AskOp::AskOp;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    OP_REQUIRES_ASYNC(context, context->input(0).NumElements() == 1 && context->input(1).NumElements() == 1,
                      absl::InvalidArgumentError("one request of one asker at a time"), done);
    auto words = std::make_shared<std::string>(context->input(0).flat<tensorflow::tstring>()(0));
    words->push_back('\0');
    words->append(std::string_view(context->input(1).flat<tensorflow::tstring>()(0)));
    psplus::Question question;
    question.kind = psplus::kDesk;
    question.payload = {{{words->data(), words->size()}}, words};
    const auto take = [context](const psplus::Outcome& outcome) {
      Tensor* answer = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &answer));
      answer->scalar<tensorflow::tstring>()() = tensorflow::tstring(outcome.reply->data(), outcome.reply->size());
      return absl::OkStatus();
    };
    Ask(context, std::move(question), take, std::move(done));
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoAskServer").Device(tensorflow::DEVICE_CPU), AskServerOp);
REGISTER_KERNEL_BUILDER(Name("AfoAskServerDesk").Device(tensorflow::DEVICE_CPU), AskServerDeskOp);

}  // namespace
}  // namespace afo
