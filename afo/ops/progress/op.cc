// Progress in the store: the step, positions of splits, and the model's own state.

#include "afo/ops/call_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::shape_inference::InferenceContext;

// What a step can add to (`IsStateType`).
constexpr char kStateTypes[] =
    "T: list({float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64}) >= 0";

// What comes of reading: a step, `splits` where they are an output, positions and arrays from output `first` on.
absl::Status ProgressShapes(InferenceContext* c, int first, tensorflow::shape_inference::DimensionHandle splits) {
  c->set_output(0, c->Scalar());
  for (int i = 1; i < first; ++i) c->set_output(i, c->Vector(splits));
  c->set_output(first, c->Matrix(splits, 3));
  for (int i = first + 1; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
  return absl::OkStatus();
}

// positions: [splits, 3], epoch, count and xor of each; (-1, 0, 0) of one that was not begun. arrays: of the model's
// state.
REGISTER_OP("AfoReadProgress")
    .Input("tables: resource")
    .Input("splits: int64")
    .Attr(kStateTypes)
    .Output("step: int64")
    .Output("positions: int64")
    .Output("arrays: T")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle splits;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &splits));
      return ProgressShapes(c, 1, c->Dim(splits, 0));
    });

// Counts a step; its positions are written, and `added` is added to the model's state. step: with this one.
REGISTER_OP("AfoAdvance")
    .Input("tables: resource")
    .Input("splits: int64")
    .Input("positions: int64")
    .Input("added: T")
    .Attr(kStateTypes)
    .Output("step: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// All splits that were begun, ascending.
REGISTER_OP("AfoExportProgress")
    .Input("tables: resource")
    .Attr(kStateTypes)
    .Output("step: int64")
    .Output("splits: int64")
    .Output("positions: int64")
    .Output("arrays: T")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return ProgressShapes(c, 2, c->UnknownDim()); });

// Replaces everything, and makes the arrays of the model's state what these are, in number, type and shape.
REGISTER_OP("AfoImportProgress")
    .Input("tables: resource")
    .Input("step: int64")
    .Input("splits: int64")
    .Input("positions: int64")
    .Input("arrays: T")
    .Attr(kStateTypes)
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

void ReadTypes(Attributes* attributes) { attributes->Types("T"); }

using ReadProgressOp = CallOpOf<Function::kReadProgress, ReadTypes>;
using AdvanceOp = CallOpOf<Function::kAdvance, NoAttributes>;
using ExportProgressOp = CallOpOf<Function::kExportProgress, ReadTypes>;
using ImportProgressOp = CallOpOf<Function::kImportProgress, NoAttributes>;

REGISTER_KERNEL_BUILDER(Name("AfoReadProgress").Device(tensorflow::DEVICE_CPU), ReadProgressOp);
REGISTER_KERNEL_BUILDER(Name("AfoAdvance").Device(tensorflow::DEVICE_CPU), AdvanceOp);
REGISTER_KERNEL_BUILDER(Name("AfoExportProgress").Device(tensorflow::DEVICE_CPU), ExportProgressOp);
REGISTER_KERNEL_BUILDER(Name("AfoImportProgress").Device(tensorflow::DEVICE_CPU), ImportProgressOp);

}  // namespace
}  // namespace afo
