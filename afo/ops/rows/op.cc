// Lookups and updates of rows, on the server that holds them: one operation for all tables of a step.

#include <vector>

#include "../resource.h"
#include "absl/strings/str_cat.h"
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

// What every kernel here begins with.
struct Asked {
  tensorflow::core::RefCountPtr<EmbeddingTables> tables;
  std::vector<TablePart> parts;
  // Where each part's floats begin in a flat tensor; one more for its length.
  std::vector<int64_t> floats{0};
};

absl::Status AskedOf(OpKernelContext* context, const std::vector<int32_t>& numbers, Asked* asked) {
  TF_RETURN_IF_ERROR(
      tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), &asked->tables));
  std::vector<Table*> found;
  TF_RETURN_IF_ERROR(asked->tables->Find(numbers, &found));
  const Tensor& keys = context->input(1);
  if (keys.dims() != 1) return absl::InvalidArgumentError("keys must be a vector");
  TF_RETURN_IF_ERROR(CheckedSplits(context->input(2), static_cast<int64_t>(found.size()), keys.NumElements()));
  const auto splits = context->input(2).vec<int32_t>();
  const int64_t* first = keys.vec<int64_t>().data();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const int64_t count = splits(i + 1) - splits(i);
    asked->parts.push_back({found[i], first + splits(i), count});
    asked->floats.push_back(asked->floats.back() + count * found[i]->options().dim);
  }
  return absl::OkStatus();
}

class LookupRowsOp : public OpKernel {
 public:
  explicit LookupRowsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
    OP_REQUIRES_OK(context, context->GetAttr("insert", &insert_));
  }

  void Compute(OpKernelContext* context) override {
    Asked asked;
    OP_REQUIRES_OK(context, AskedOf(context, numbers_, &asked));
    const int64_t keys = context->input(1).NumElements();
    Tensor *values = nullptr, *rows = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {asked.floats.back()}, &values));
    OP_REQUIRES_OK(context, context->allocate_output(1, {insert_ ? keys : 0}, &rows));
    std::vector<float*> targets;
    for (std::size_t i = 0; i < asked.parts.size(); ++i) {
      targets.push_back(values->vec<float>().data() + asked.floats[i]);
    }
    if (!insert_) return Lookup(asked.parts, targets, ThreadsOf(context));
    std::vector<std::uint32_t*> numbers;
    auto* first = reinterpret_cast<std::uint32_t*>(rows->vec<int32_t>().data());
    for (const TablePart& part : asked.parts) {
      numbers.push_back(first);
      first += part.count;
    }
    OP_REQUIRES_OK(context, StatusOf(LookupOrInsert(asked.parts, targets, numbers, ThreadsOf(context))));
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
    Asked asked;
    OP_REQUIRES_OK(context, AskedOf(context, numbers_, &asked));
    const int64_t keys = context->input(1).NumElements();
    for (const int input : {3, 4}) {
      const int64_t given = context->input(input).NumElements();
      OP_REQUIRES(context, given == 0 || given == keys,
                  absl::InvalidArgumentError(absl::StrCat("rows and counts must be empty or have ", keys,
                                                          " elements as the keys, and one has ", given)));
    }
    OP_REQUIRES(context, context->input(5).NumElements() == asked.floats.back(),
                absl::InvalidArgumentError(absl::StrCat("gradients must have ", asked.floats.back(),
                                                        " elements for these keys, and have ",
                                                        context->input(5).NumElements())));
    std::vector<const float*> gradients;
    for (std::size_t i = 0; i < asked.parts.size(); ++i) {
      gradients.push_back(context->input(5).flat<float>().data() + asked.floats[i]);
    }
    const int64_t step = context->input(7).scalar<int64_t>()();
    const Moment moment{context->input(6).scalar<float>()(),
                        static_cast<std::uint32_t>(std::min<int64_t>(std::max<int64_t>(step, 0), kFreeStep - 1))};
    OP_REQUIRES_OK(context, StatusOf(Apply(asked.parts, gradients, PerPart(context->input(3), asked),
                                           PerPart(context->input(4), asked), moment, ThreadsOf(context))));
  }

 private:
  static std::vector<const std::uint32_t*> PerPart(const Tensor& tensor, const Asked& asked) {
    std::vector<const std::uint32_t*> found;
    if (tensor.NumElements() == 0) return found;
    const auto* first = reinterpret_cast<const std::uint32_t*>(tensor.flat<int32_t>().data());
    for (const TablePart& part : asked.parts) {
      found.push_back(first);
      first += part.count;
    }
    return found;
  }

  std::vector<int32_t> numbers_;
};

class RemoveRowsOp : public OpKernel {
 public:
  explicit RemoveRowsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("number", &number_));
  }

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<EmbeddingTables> tables;
    OP_REQUIRES_OK(context,
                   tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), &tables));
    std::vector<Table*> found;
    OP_REQUIRES_OK(context, tables->Find({number_}, &found));
    Tensor* removed = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &removed));
    const auto keys = context->input(1).flat<int64_t>();
    removed->scalar<int64_t>()() = found[0]->Remove(keys.data(), keys.size());
  }

 private:
  int32_t number_;
};

REGISTER_KERNEL_BUILDER(Name("AfoLookupRows").Device(tensorflow::DEVICE_CPU), LookupRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoApplyRows").Device(tensorflow::DEVICE_CPU), ApplyRowsOp);
REGISTER_KERNEL_BUILDER(Name("AfoRemoveRows").Device(tensorflow::DEVICE_CPU), RemoveRowsOp);

}  // namespace
}  // namespace afo
