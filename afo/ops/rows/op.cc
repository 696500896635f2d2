// Lookups and updates of rows, on the server that holds them: one operation for all tables of a step.

#include "afo/ops/call_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

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

void ReadLookup(Attributes* attributes) { attributes->Bool("insert").Ints("numbers"); }
void ReadRemoval(Attributes* attributes) { attributes->Int("number"); }
void ReadEviction(Attributes* attributes) {
  attributes->CountedInts("numbers").Ints("unused_steps").Ints("capacities").Floats("l2_weights");
}

using LookupRowsOp = CallOpOf<Function::kLookupRows, ReadLookup>;
using ApplyRowsOp = CallOpOf<Function::kApplyRows, Numbers>;
using RemoveRowsOp = CallOpOf<Function::kRemoveRows, ReadRemoval>;
using EvictRowsOp = CallOpOf<Function::kEvictRows, ReadEviction>;

REGISTER_KERNEL_BUILDER(Name("AfoEvictRows").Device(tensorflow::DEVICE_CPU), EvictRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoLookupRows").Device(tensorflow::DEVICE_CPU), LookupRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoApplyRows").Device(tensorflow::DEVICE_CPU), ApplyRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoRemoveRows").Device(tensorflow::DEVICE_CPU), RemoveRowsOp);

}  // namespace
}  // namespace afo
