// Dense weights of the store, with their slots.

#include <string>

#include "absl/strings/str_cat.h"
#include "afo/ops/input_checks.h"
#include "afo/ops/optimizer_attributes.h"
#include "afo/ops/resource.h"
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

absl::Status WeightsShape(InferenceContext* c) {
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

// The weights are zero at first. option_names, options: of the rule, as of AfoAddTable.
REGISTER_OP("AfoCreateDense")
    .Input("tables: resource")
    .Attr("size: int >= 0")
    .Attr("rule: string")
    .Attr("slots: int >= 0")
    .Attr("option_names: list(string)")
    .Attr("options: list(float)")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("AfoReadDense")
    .Input("tables: resource")
    .Output("weights: float")
    .SetIsStateful()
    .SetShapeFn(WeightsShape);

// schedule: factor of the learning rate.
REGISTER_OP("AfoApplyDense")
    .Input("tables: resource")
    .Input("gradient: float")
    .Input("schedule: float")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

// Adds to the weights alone.
REGISTER_OP("AfoMoveDense")
    .Input("tables: resource")
    .Input("change: float")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

// Sets the weights, with new slots, and forgets the number of updates.
REGISTER_OP("AfoResetDense")
    .Input("tables: resource")
    .Input("weights: float")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

// slots: [slots, size]. powers: the number of updates, which Adam corrects by.
REGISTER_OP("AfoExportDense")
    .Input("tables: resource")
    .Output("weights: float")
    .Output("slots: float")
    .Output("powers: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      c->set_output(2, c->Scalar());
      return absl::OkStatus();
    });

REGISTER_OP("AfoImportDense")
    .Input("tables: resource")
    .Input("weights: float")
    .Input("slots: float")
    .Input("powers: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

class CreateDenseOp : public OpKernel {
 public:
  explicit CreateDenseOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("size", &size_));
    OP_REQUIRES_VALUE(options_, context, OptimizerOf(context, kWhose));
    OP_REQUIRES(context, IsDenseRule(options_), OptionOutOfRange(kWhose, "a rule of rows"));
    OP_REQUIRES(context, size_ <= kMostDenseWeights, OptionOutOfRange(kWhose, "size"));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const auto tables, context, CreatedTables(context));
    const Creation creation = tables->store().CreateDense(options_, size_);
    OP_REQUIRES(context, creation != Creation::kConflict,
                absl::AlreadyExistsError("the dense weights are there with another size or optimizer"));
    OP_REQUIRES_OK(context, StatusOf(creation, kWhose));
  }

 private:
  static constexpr absl::string_view kWhose = "the dense weights";

  int64_t size_;
  OptimizerOptions options_;
};

// What the kernels over dense weights have in common.
class DenseOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const auto tables, context, TablesOf(context));
    DenseWeights* dense = tables->store().dense();
    OP_REQUIRES(context, dense != nullptr,
                absl::FailedPreconditionError("there are no dense weights on this server"));
    OP_REQUIRES_OK(context, Run(context, dense));
  }

 protected:
  virtual absl::Status Run(OpKernelContext* context, DenseWeights* dense) = 0;
};

class ReadDenseOp : public DenseOp {
 public:
  using DenseOp::DenseOp;

 protected:
  absl::Status Run(OpKernelContext* context, DenseWeights* dense) override {
    Tensor* weights = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {dense->size()}, &weights));
    dense->Read(weights->flat<float>().data(), ThreadsOf(context));
    return absl::OkStatus();
  }
};

class ApplyDenseOp : public DenseOp {
 public:
  using DenseOp::DenseOp;

 protected:
  absl::Status Run(OpKernelContext* context, DenseWeights* dense) override {
    const Tensor &gradient = context->input(1), &schedule = context->input(2);
    TF_RETURN_IF_ERROR(CheckShape(gradient, "gradient", {dense->size()}));
    TF_RETURN_IF_ERROR(CheckShape(schedule, "schedule", {}));
    dense->Apply(gradient.flat<float>().data(), schedule.scalar<float>()(), ThreadsOf(context));
    return absl::OkStatus();
  }
};

// Has all weights changed by one value each, which an error calls `kName`.
template <auto kChange, const char* kName>
class ChangeDenseOp : public DenseOp {
 public:
  using DenseOp::DenseOp;

 protected:
  absl::Status Run(OpKernelContext* context, DenseWeights* dense) override {
    TF_RETURN_IF_ERROR(CheckShape(context->input(1), kName, {dense->size()}));
    (dense->*kChange)(context->input(1).flat<float>().data(), ThreadsOf(context));
    return absl::OkStatus();
  }
};

constexpr char kChange[] = "change", kWeights[] = "weights";
using MoveDenseOp = ChangeDenseOp<&DenseWeights::Move, kChange>;
using ResetDenseOp = ChangeDenseOp<&DenseWeights::Reset, kWeights>;

class ExportDenseOp : public DenseOp {
 public:
  using DenseOp::DenseOp;

 protected:
  absl::Status Run(OpKernelContext* context, DenseWeights* dense) override {
    Tensor *weights = nullptr, *slots = nullptr, *powers = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {dense->size()}, &weights));
    TF_RETURN_IF_ERROR(context->allocate_output(1, {dense->slots(), dense->size()}, &slots));
    TF_RETURN_IF_ERROR(context->allocate_output(2, {}, &powers));
    powers->scalar<int64_t>()() = static_cast<int64_t>(
        dense->Export(weights->flat<float>().data(), slots->flat<float>().data(), ThreadsOf(context)));
    return absl::OkStatus();
  }
};

class ImportDenseOp : public DenseOp {
 public:
  using DenseOp::DenseOp;

 protected:
  absl::Status Run(OpKernelContext* context, DenseWeights* dense) override {
    const Tensor &weights = context->input(1), &slots = context->input(2), &powers = context->input(3);
    TF_RETURN_IF_ERROR(CheckShape(weights, "weights", {dense->size()}));
    TF_RETURN_IF_ERROR(CheckShape(slots, "slots", {dense->slots(), dense->size()}));
    TF_RETURN_IF_ERROR(CheckShape(powers, "powers", {}));
    const int64_t updates = powers.scalar<int64_t>()();
    if (updates < 0) return absl::InvalidArgumentError("powers must not be negative");
    dense->Import(weights.flat<float>().data(), slots.flat<float>().data(), static_cast<std::uint64_t>(updates),
                  ThreadsOf(context));
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoCreateDense").Device(tensorflow::DEVICE_CPU), CreateDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoReadDense").Device(tensorflow::DEVICE_CPU), ReadDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoApplyDense").Device(tensorflow::DEVICE_CPU), ApplyDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoMoveDense").Device(tensorflow::DEVICE_CPU), MoveDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoResetDense").Device(tensorflow::DEVICE_CPU), ResetDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoExportDense").Device(tensorflow::DEVICE_CPU), ExportDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoImportDense").Device(tensorflow::DEVICE_CPU), ImportDenseOp);

}  // namespace
}  // namespace afo
