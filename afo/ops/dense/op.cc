// Dense weights of the store, with their slots.

#include "afo/ops/call_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

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

void ReadCreation(Attributes* attributes) {
  attributes->Int("size").Int("slots").Text("rule").Texts("option_names").Floats("options");
}

using CreateDenseOp = CallOpOf<Function::kCreateDense, ReadCreation>;
using ReadDenseOp = CallOpOf<Function::kReadDense, NoAttributes>;
using ApplyDenseOp = CallOpOf<Function::kApplyDense, NoAttributes>;
using MoveDenseOp = CallOpOf<Function::kMoveDense, NoAttributes>;
using ResetDenseOp = CallOpOf<Function::kResetDense, NoAttributes>;
using ExportDenseOp = CallOpOf<Function::kExportDense, NoAttributes>;
using ImportDenseOp = CallOpOf<Function::kImportDense, NoAttributes>;

REGISTER_KERNEL_BUILDER(Name("AfoCreateDense").Device(tensorflow::DEVICE_CPU), CreateDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoReadDense").Device(tensorflow::DEVICE_CPU), ReadDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoApplyDense").Device(tensorflow::DEVICE_CPU), ApplyDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoMoveDense").Device(tensorflow::DEVICE_CPU), MoveDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoResetDense").Device(tensorflow::DEVICE_CPU), ResetDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoExportDense").Device(tensorflow::DEVICE_CPU), ExportDenseOp);
REGISTER_KERNEL_BUILDER(Name("AfoImportDense").Device(tensorflow::DEVICE_CPU), ImportDenseOp);

}  // namespace
}  // namespace afo
