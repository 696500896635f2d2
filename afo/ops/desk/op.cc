// The operation that puts a request down at the desk of the server that it is placed on.

#include <memory>
#include <string>
#include <utility>

#include "afo/core/desk.h"
#include "afo/ops/resource.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// asker: a name of its own; its earlier requests are stopped. request, answer: messages of
// afo/tables/desk_messages.py.
REGISTER_OP("AfoAskDesk")
    .Input("tables: resource")
    .Input("asker: string")
    .Input("request: string")
    .Output("answer: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// Where the client dies or gives up, the request is stopped; the operation ends with the answer all the same.
class AskDeskOp : public tensorflow::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    tensorflow::core::RefCountPtr<EmbeddingTables> tables;
    OP_REQUIRES_OK_ASYNC(
        context, tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), &tables), done);
    auto request = std::make_shared<DeskRequest>();
    request->store = tables->shared_store();
    OP_REQUIRES_ASYNC(context, context->input(1).NumElements() == 1 && context->input(2).NumElements() == 1,
                      absl::InvalidArgumentError("one request of one asker at a time"), done);
    request->asker = context->input(1).flat<tensorflow::tstring>()(0);
    request->words = context->input(2).flat<tensorflow::tstring>()(0);
    tensorflow::CancellationManager* const cancellation = context->cancellation_manager();
    tensorflow::CancellationToken token{};
    if (cancellation != nullptr) {
      token = cancellation->get_cancellation_token();
      const bool is_registered = cancellation->RegisterCallback(token, [request] { request->stopped = true; });
      OP_REQUIRES_ASYNC(context, is_registered, absl::CancelledError("the client is gone"), done);
    }
    const auto finish = [context, cancellation, token, done](std::string answer) {
      if (cancellation != nullptr) cancellation->DeregisterCallback(token);
      Tensor* output = nullptr;
      OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, {}, &output), done);
      output->scalar<tensorflow::tstring>()() = std::move(answer);
      done();
    };
    request->answer = finish;
    if (Desk::OfProcess().Put(request)) return;
    if (cancellation != nullptr) cancellation->DeregisterCallback(token);
    context->SetStatus(absl::UnimplementedError(
        "nobody in this server's process saves or loads embedding tables: it has to call afo.tables.desk.attend()"));
    done();
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoAskDesk").Device(tensorflow::DEVICE_CPU), AskDeskOp);

}  // namespace
}  // namespace afo
