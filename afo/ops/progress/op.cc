// Progress in the store: the step, positions of splits, and the model's own state.

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/ops/input_checks.h"
#include "afo/ops/part_types.h"
#include "afo/ops/resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
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

// What the kernels over progress have in common: the types of the model's state.
class ProgressOp : public OpKernel {
 public:
  explicit ProgressOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("T", &types_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const auto tables, context, TablesOf(context));
    OP_REQUIRES_OK(context, Run(context, &tables->store().progress()));
  }

 protected:
  virtual absl::Status Run(OpKernelContext* context, Progress* progress) = 0;

  // Writes the outputs from `first` on.
  absl::Status SetArrays(OpKernelContext* context, int first, const std::vector<StateArray>& arrays) const {
    bool fits = arrays.size() == types_.size();
    for (std::size_t i = 0; fits && i < arrays.size(); ++i) fits = arrays[i].type == PartTypeOf(types_[i]);
    if (!fits) {
      return absl::FailedPreconditionError(absl::StrCat(
          types_.size(), " arrays of the model's state were asked for, and this server has ", arrays.size(),
          ", or of other types"));
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      TensorShape shape;
      TF_RETURN_IF_ERROR(TensorShape::BuildTensorShape(arrays[i].dims, &shape));
      Tensor* array = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(first + static_cast<int>(i), shape, &array));
      if (!arrays[i].bytes.empty()) std::memcpy(array->data(), arrays[i].bytes.data(), arrays[i].bytes.size());
    }
    return absl::OkStatus();
  }

 private:
  std::vector<DataType> types_;
};

absl::Status SetStep(OpKernelContext* context, std::int64_t value) {
  Tensor* step = nullptr;
  TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &step));
  step->scalar<int64_t>()() = value;
  return absl::OkStatus();
}

absl::Status SetPositions(OpKernelContext* context, int number, const std::vector<Position>& positions) {
  Tensor* to = nullptr;
  const auto count = static_cast<int64_t>(positions.size());
  TF_RETURN_IF_ERROR(context->allocate_output(number, {count, 3}, &to));
  if (count > 0) std::memcpy(to->data(), positions.data(), positions.size() * sizeof(Position));
  return absl::OkStatus();
}

absl::StatusOr<std::span<const std::int64_t>> SplitsOf(const Tensor& splits) {
  if (splits.dims() != 1) return absl::InvalidArgumentError("splits must be a vector");
  return std::span<const std::int64_t>(splits.flat<int64_t>().data(), static_cast<std::size_t>(splits.NumElements()));
}

// Copies, for alignment and types are a tensor's own.
absl::StatusOr<std::vector<Position>> PositionsOf(const Tensor& positions, std::size_t splits) {
  TF_RETURN_IF_ERROR(CheckShape(positions, "positions", {static_cast<int64_t>(splits), 3}));
  std::vector<Position> found(splits);
  if (splits > 0) std::memcpy(found.data(), positions.data(), splits * sizeof(Position));
  return found;
}

// The inputs from `first` on.
std::vector<MessagePart> ArraysOf(OpKernelContext* context, int first) {
  std::vector<MessagePart> arrays;
  for (int i = first; i < context->num_inputs(); ++i) arrays.push_back(PartOf(context->input(i)));
  return arrays;
}

class ReadProgressOp : public ProgressOp {
 public:
  using ProgressOp::ProgressOp;

 protected:
  absl::Status Run(OpKernelContext* context, Progress* progress) override {
    TF_ASSIGN_OR_RETURN(const auto splits, SplitsOf(context->input(1)));
    const ReadProgress read = progress->Read(splits);
    if (!read.wrong.empty()) return absl::InvalidArgumentError(read.wrong);
    TF_RETURN_IF_ERROR(SetStep(context, read.state.step));
    TF_RETURN_IF_ERROR(SetPositions(context, 1, read.state.positions));
    return SetArrays(context, 2, read.state.arrays);
  }
};

class AdvanceOp : public ProgressOp {
 public:
  using ProgressOp::ProgressOp;

 protected:
  absl::Status Run(OpKernelContext* context, Progress* progress) override {
    TF_ASSIGN_OR_RETURN(const auto splits, SplitsOf(context->input(1)));
    TF_ASSIGN_OR_RETURN(const auto positions, PositionsOf(context->input(2), splits.size()));
    const AdvancedStep advanced = progress->Advance(splits, positions, ArraysOf(context, 3));
    if (!advanced.wrong.empty()) return absl::InvalidArgumentError(advanced.wrong);
    return SetStep(context, advanced.step);
  }
};

class ExportProgressOp : public ProgressOp {
 public:
  using ProgressOp::ProgressOp;

 protected:
  absl::Status Run(OpKernelContext* context, Progress* progress) override {
    const ProgressState state = progress->Export();
    TF_RETURN_IF_ERROR(SetStep(context, state.step));
    Tensor* splits = nullptr;
    const auto count = static_cast<int64_t>(state.splits.size());
    TF_RETURN_IF_ERROR(context->allocate_output(1, {count}, &splits));
    std::copy(state.splits.begin(), state.splits.end(), splits->flat<int64_t>().data());
    TF_RETURN_IF_ERROR(SetPositions(context, 2, state.positions));
    return SetArrays(context, 3, state.arrays);
  }
};

class ImportProgressOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& step = context->input(1);
    OP_REQUIRES_OK(context, CheckShape(step, "step", {}));
    OP_REQUIRES_VALUE(const auto splits, context, SplitsOf(context->input(2)));
    OP_REQUIRES_VALUE(const auto positions, context, PositionsOf(context->input(3), splits.size()));
    OP_REQUIRES_VALUE(const auto tables, context, CreatedTables(context));
    const std::string wrong = tables->store().progress().Import(step.scalar<int64_t>()(), splits, positions,
                                                                ArraysOf(context, 4));
    OP_REQUIRES(context, wrong.empty(), absl::InvalidArgumentError(wrong));
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoReadProgress").Device(tensorflow::DEVICE_CPU), ReadProgressOp);
REGISTER_KERNEL_BUILDER(Name("AfoAdvance").Device(tensorflow::DEVICE_CPU), AdvanceOp);
REGISTER_KERNEL_BUILDER(Name("AfoExportProgress").Device(tensorflow::DEVICE_CPU), ExportProgressOp);
REGISTER_KERNEL_BUILDER(Name("AfoImportProgress").Device(tensorflow::DEVICE_CPU), ImportProgressOp);

}  // namespace
}  // namespace afo
