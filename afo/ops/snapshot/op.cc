// What a checkpoint asks of all tables of a server; their rows go by the desk.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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

// What the kernels here have in common: some tables of the resource, by the attribute `numbers`.
class TablesOp : public OpKernel {
 public:
  explicit TablesOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const auto tables, context, TablesOf(context));
    OP_REQUIRES_VALUE(const std::vector<Table*> found, context, tables->Find(numbers_));
    OP_REQUIRES_OK(context, Run(context, found));
  }

 protected:
  virtual absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) = 0;

  absl::Status CheckOnePerTable(const Tensor& tensor) const {
    if (tensor.NumElements() == static_cast<int64_t>(numbers_.size())) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a number for each of ", numbers_.size(), " tables"));
  }

 private:
  std::vector<int32_t> numbers_;
};

class BeginEpochOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) override {
    Tensor *epochs = nullptr, *powers = nullptr;
    const auto count = static_cast<int64_t>(tables.size());
    TF_RETURN_IF_ERROR(context->allocate_output(0, {count}, &epochs));
    TF_RETURN_IF_ERROR(context->allocate_output(1, {count}, &powers));
    for (int64_t i = 0; i < count; ++i) {
      powers->vec<int64_t>()(i) = static_cast<int64_t>(tables[i]->powers());
      epochs->vec<int64_t>()(i) = static_cast<int64_t>(tables[i]->BeginEpoch());
    }
    return absl::OkStatus();
  }
};

class ClearTablesOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  absl::Status Run(OpKernelContext*, const std::vector<Table*>& tables) override {
    for (Table* table : tables) table->Clear();
    return absl::OkStatus();
  }
};

class ForgetRemovedOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) override {
    const Tensor& before = context->input(1);
    TF_RETURN_IF_ERROR(CheckOnePerTable(before));
    for (std::size_t i = 0; i < tables.size(); ++i) {
      tables[i]->ForgetRemoved(static_cast<std::uint64_t>(std::max<int64_t>(before.flat<int64_t>()(i), 0)));
    }
    return absl::OkStatus();
  }
};

class SetPowersOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) override {
    const Tensor& powers = context->input(1);
    TF_RETURN_IF_ERROR(CheckOnePerTable(powers));
    for (std::size_t i = 0; i < tables.size(); ++i) {
      tables[i]->set_powers(static_cast<std::uint64_t>(std::max<int64_t>(powers.flat<int64_t>()(i), 0)));
    }
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoBeginEpoch").Device(tensorflow::DEVICE_CPU), BeginEpochOp);
REGISTER_KERNEL_BUILDER(Name("AfoClearTables").Device(tensorflow::DEVICE_CPU), ClearTablesOp);
REGISTER_KERNEL_BUILDER(Name("AfoForgetRemoved").Device(tensorflow::DEVICE_CPU), ForgetRemovedOp);
REGISTER_KERNEL_BUILDER(Name("AfoSetPowers").Device(tensorflow::DEVICE_CPU), SetPowersOp);

}  // namespace
}  // namespace afo
