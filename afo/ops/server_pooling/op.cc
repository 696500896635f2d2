// Bags that are pooled where their rows lie (afo/core/pooled_calls.cc).

#include "tensorflow/core/framework/op.h"

#include "afo/ops/call_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::shape_inference::InferenceContext;

// pooled: for each feature a sum a sample, one feature behind the other. rows: for AfoApplyPooled; empty where nothing
// is inserted. run_tables: each feature's table, as a number of `numbers`.
REGISTER_OP("AfoPoolRows")
    .Input("tables: resource")
    .Input("keys: int64")
    .Input("splits: int32")
    .Input("samples: int32")
    .Input("lengths: int32")
    .Input("near: uint16")
    .Input("far: int32")
    .Input("weights: float")
    .Attr("numbers: list(int) >= 1")
    .Attr("run_tables: list(int) >= 1")
    .Attr("max_norms: list(float) >= 1")
    .Attr("insert: bool")
    .Attr("T: {float, bfloat16}")
    .Output("pooled: T")
    .Output("rows: int32")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    });

// gradients: of `pooled`.
REGISTER_OP("AfoApplyPooled")
    .Input("tables: resource")
    .Input("keys: int64")
    .Input("splits: int32")
    .Input("samples: int32")
    .Input("lengths: int32")
    .Input("near: uint16")
    .Input("far: int32")
    .Input("weights: float")
    .Input("rows: int32")
    .Input("counts: int32")
    .Input("gradients: T")
    .Input("schedule: float")
    .Input("step: int64")
    .Attr("numbers: list(int) >= 1")
    .Attr("run_tables: list(int) >= 1")
    .Attr("max_norms: list(float) >= 1")
    .Attr("T: {float, bfloat16}")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

void ReadSums(Attributes* attributes) {
  attributes->Bool("insert").Type("T").CountedInts("numbers").Ints("run_tables").Floats("max_norms");
}
void ReadBags(Attributes* attributes) { attributes->CountedInts("numbers").Ints("run_tables").Floats("max_norms"); }

using PoolRowsOp = CallOpOf<Function::kPoolRows, ReadSums>;
using ApplyPooledOp = CallOpOf<Function::kApplyPooled, ReadBags>;

REGISTER_KERNEL_BUILDER(Name("AfoPoolRows").Device(tensorflow::DEVICE_CPU), PoolRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoApplyPooled").Device(tensorflow::DEVICE_CPU), ApplyPooledOp);

}  // namespace
}  // namespace afo
