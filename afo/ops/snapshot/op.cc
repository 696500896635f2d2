// What a checkpoint asks of all tables of a server; their rows go by the desk.

#include "afo/ops/call_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::shape_inference::InferenceContext;

absl::Status TwoVectors(InferenceContext* c) {
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

// Changes from now on are of a new epoch. powers: how many updates each table has had.
REGISTER_OP("AfoBeginEpoch")
    .Input("tables: resource")
    .Attr("numbers: list(int) >= 1")
    .Output("epochs: int64")
    .Output("powers: int64")
    .SetIsStateful()
    .SetShapeFn(TwoVectors);

REGISTER_OP("AfoClearTables")
    .Input("tables: resource")
    .Attr("numbers: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("AfoForgetRemoved")
    .Input("tables: resource")
    .Input("before: int64")
    .Attr("numbers: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("AfoSetPowers")
    .Input("tables: resource")
    .Input("powers: int64")
    .Attr("numbers: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

using BeginEpochOp = CallOpOf<Function::kBeginEpoch, Numbers>;
using ClearTablesOp = CallOpOf<Function::kClearTables, Numbers>;
using ForgetRemovedOp = CallOpOf<Function::kForgetRemoved, Numbers>;
using SetPowersOp = CallOpOf<Function::kSetPowers, Numbers>;

REGISTER_KERNEL_BUILDER(Name("AfoBeginEpoch").Device(tensorflow::DEVICE_CPU), BeginEpochOp);
REGISTER_KERNEL_BUILDER(Name("AfoClearTables").Device(tensorflow::DEVICE_CPU), ClearTablesOp);
REGISTER_KERNEL_BUILDER(Name("AfoForgetRemoved").Device(tensorflow::DEVICE_CPU), ForgetRemovedOp);
REGISTER_KERNEL_BUILDER(Name("AfoSetPowers").Device(tensorflow::DEVICE_CPU), SetPowersOp);

}  // namespace
}  // namespace afo
