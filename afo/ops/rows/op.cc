// Lookups and updates of rows, on the server that holds them: one operation for all tables of a step.

#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/ops/batch_input.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

// keys, splits: as AfoUnique makes them for this server. values: the rows of the first table, then of the next.
// rows: their numbers here, for AfoApplyRows; empty where nothing is inserted.
REGISTER_OP("AfoLookupRows")
    .Input("tables: resource")
    .Input("keys: int64")
    .Input("splits: int32")
    .Attr("numbers: list(int) >= 1")
    .Attr("insert: bool")
    .Output("values: float")
    .Output("rows: int32")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    });

// gradients: flat, as `values`. counts: how often a key was in the batch. rows: of AfoLookupRows, or empty.
REGISTER_OP("AfoApplyRows")
    .Input("tables: resource")
    .Input("keys: int64")
    .Input("splits: int32")
    .Input("rows: int32")
    .Input("counts: int32")
    .Input("gradients: float")
    .Input("schedule: float")
    .Input("step: int64")
    .Attr("numbers: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("AfoRemoveRows")
    .Input("tables: resource")
    .Input("keys: int64")
    .Attr("number: int >= 0")
    .Output("removed: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// Removes rows by their table's policy; 0 means not by this. step: of the training, now. oldest: rows without an update
// since that step go in any case.
REGISTER_OP("AfoEvictRows")
    .Input("tables: resource")
    .Input("step: int64")
    .Input("oldest: int64")
    .Attr("numbers: list(int) >= 1")
    .Attr("unused_steps: list(int) >= 1")
    .Attr("l2_weights: list(float) >= 1")
    .Attr("capacities: list(int) >= 1")
    .Output("evicted: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    });

class LookupRowsOp : public OpKernel {
 public:
  explicit LookupRowsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
    OP_REQUIRES_OK(context, context->GetAttr("insert", &insert_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const BatchInput in, context, ReadBatch(context, numbers_));
    Tensor *values = nullptr, *rows = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {in.floats.back()}, &values));
    OP_REQUIRES_OK(context, context->allocate_output(1, {insert_ ? context->input(1).NumElements() : 0}, &rows));
    const std::vector<LookupOutput> to = OutputsPerTable(in, values->flat<float>().data(), insert_ ? rows : nullptr);
    if (!insert_) return Lookup(in.parts, to, ThreadsOf(context));
    OP_REQUIRES_OK(context, StatusOf(LookupOrInsert(in.parts, to, ThreadsOf(context))));
  }

 private:
  std::vector<int32_t> numbers_;
  bool insert_;
};

class ApplyRowsOp : public OpKernel {
 public:
  explicit ApplyRowsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const BatchInput in, context, ReadBatch(context, numbers_));
    const Tensor& gradients = context->input(5);
    OP_REQUIRES(context, gradients.NumElements() == in.floats.back(),
                absl::InvalidArgumentError(absl::StrCat("gradients must have ", in.floats.back(),
                                                        " elements for these keys, and have ",
                                                        gradients.NumElements())));
    OP_REQUIRES_VALUE(const std::vector<RowGradients> of, context,
                      GradientsPerTable(in, gradients.flat<float>().data(), context->input(3), context->input(4)));
    OP_REQUIRES_VALUE(const StepInfo info, context, StepInfoOf(context->input(6), context->input(7)));
    OP_REQUIRES_OK(context, StatusOf(Apply(in.parts, of, info, ThreadsOf(context))));
  }

 private:
  std::vector<int32_t> numbers_;
};

class RemoveRowsOp : public OpKernel {
 public:
  explicit RemoveRowsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("number", &number_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const auto tables, context, TablesOf(context));
    OP_REQUIRES_VALUE(const std::vector<Table*> found, context, tables->Find({number_}));
    Tensor* removed = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &removed));
    const auto keys = context->input(1).flat<int64_t>();
    removed->scalar<int64_t>()() = found[0]->Remove({keys.data(), static_cast<std::size_t>(keys.size())});
  }

 private:
  int32_t number_;
};

class EvictRowsOp : public OpKernel {
 public:
  explicit EvictRowsOp(OpKernelConstruction* context) : OpKernel(context) {
    std::vector<int64_t> unused_steps, capacities;
    std::vector<float> l2_weights;
    OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
    OP_REQUIRES_OK(context, context->GetAttr("unused_steps", &unused_steps));
    OP_REQUIRES_OK(context, context->GetAttr("l2_weights", &l2_weights));
    OP_REQUIRES_OK(context, context->GetAttr("capacities", &capacities));
    const std::size_t count = numbers_.size();
    OP_REQUIRES(context, unused_steps.size() == count && l2_weights.size() == count && capacities.size() == count,
                absl::InvalidArgumentError("a policy for each table"));
    for (std::size_t i = 0; i < count; ++i) {
      OP_REQUIRES(context, unused_steps[i] >= 0 && unused_steps[i] < kFreeStep && l2_weights[i] >= 0 && capacities[i] >= 0,
                  absl::InvalidArgumentError("an option of eviction is out of its range"));
      policies_.push_back({.unused_steps = static_cast<std::uint32_t>(unused_steps[i]),
                           .l2_weight = l2_weights[i],
                           .capacity = capacities[i]});
    }
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const auto tables, context, TablesOf(context));
    OP_REQUIRES_VALUE(const std::vector<Table*> found, context, tables->Find(numbers_));
    OP_REQUIRES_VALUE(const std::uint32_t step, context, StepOf(context->input(1)));
    OP_REQUIRES_VALUE(const std::uint32_t oldest, context, StepOf(context->input(2)));
    Tensor* evicted = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {static_cast<int64_t>(found.size())}, &evicted));
    for (std::size_t i = 0; i < found.size(); ++i) {
      evicted->vec<int64_t>()(i) = found[i]->Evict(policies_[i], step, oldest);
    }
  }

 private:
  std::vector<int32_t> numbers_;
  std::vector<EvictionOptions> policies_;
};

REGISTER_KERNEL_BUILDER(Name("AfoEvictRows").Device(tensorflow::DEVICE_CPU), EvictRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoLookupRows").Device(tensorflow::DEVICE_CPU), LookupRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoApplyRows").Device(tensorflow::DEVICE_CPU), ApplyRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoRemoveRows").Device(tensorflow::DEVICE_CPU), RemoveRowsOp);

}  // namespace
}  // namespace afo
