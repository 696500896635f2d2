// Lookups in the tables of a served model, one or several at once.

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/ops/resource.h"
#include "afo/ops/serving/served_resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// keys: of any shape, repeated ones too. dim: of the table.
REGISTER_OP("AfoLookupServed")
    .Input("table: resource")
    .Input("keys: int64")
    .Attr("dim: int >= 1")
    .Output("weights: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      std::int64_t dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      ShapeHandle shape;
      TF_RETURN_IF_ERROR(c->Concatenate(c->input(1), c->Vector(dim), &shape));
      c->set_output(0, shape);
      return absl::OkStatus();
    });

// keys: of each table [n, values]. weights: the rows of all, side by side: [n, values of all, dim], as a concatenation
// of what AfoLookupServed gives of each.
REGISTER_OP("AfoLookupServedTables")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Attr("N: int >= 1")
    .Attr("dim: int >= 1")
    .Output("weights: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      std::int64_t dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      DimensionHandle samples = c->UnknownDim(), values = c->MakeDim(0);
      for (int i = c->num_inputs() / 2; i < c->num_inputs(); ++i) {
        ShapeHandle keys;
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &keys));
        TF_RETURN_IF_ERROR(c->Merge(samples, c->Dim(keys, 0), &samples));
        TF_RETURN_IF_ERROR(c->Add(values, c->Dim(keys, 1), &values));
      }
      c->set_output(0, c->MakeShape({samples, values, c->MakeDim(dim)}));
      return absl::OkStatus();
    });

// What a key costs, which says how many a thread looks up at least.
constexpr std::int64_t kCostOfAKey = 100;

// Looks up `count` pieces that cost as much each. `lookup(first, last)` returns what is wrong, or nothing.
template <typename Lookup>
absl::Status OnThreads(OpKernelContext* context, std::int64_t count, std::int64_t cost, const Lookup& lookup) {
  std::mutex mutex;
  std::string wrong;
  ThreadsOf(context)(count, cost, [&](std::int64_t first, std::int64_t last) {
    std::string found = lookup(first, last);
    std::lock_guard lock(mutex);
    if (!found.empty()) wrong = std::move(found);
  });
  if (wrong.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a table of the model is lost: ", wrong));
}

class LookupServedOp : public OpKernel {
 public:
  explicit LookupServedOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("dim", &dim_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const Rows table, context, LoadedRows(context, 0, dim_));
    const Tensor& keys = context->input(1);
    tensorflow::TensorShape shape = keys.shape();
    OP_REQUIRES_OK(context, shape.AddDimWithStatus(dim_));
    Tensor* weights = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &weights));
    const std::int64_t* from = keys.flat<std::int64_t>().data();
    float* to = weights->flat<float>().data();
    OP_REQUIRES_OK(context,
                   OnThreads(context, keys.NumElements(), kCostOfAKey, [&](std::int64_t first, std::int64_t last) {
                     return table->Lookup(from + first, last - first, to + first * dim_);
                   }));
  }

 private:
  std::int64_t dim_;
};

// Rows of several tables, one behind the other for each sample.
class SideBySide {
 public:
  explicit SideBySide(std::int64_t dim) : dim_(dim) {}
  // keys: [n, values].
  void Add(Rows table, const Tensor& keys) {
    columns_.push_back({std::move(table), keys.flat<std::int64_t>().data(), keys.dim_size(1), values_});
    values_ += keys.dim_size(1);
  }
  std::int64_t values() const { return values_; }
  void SetWeights(float* weights) { weights_ = weights; }
  // Of the samples [first, last). Returns what is wrong, or nothing. Called by many threads.
  std::string Lookup(std::int64_t first, std::int64_t last) const {
    std::vector<float> rows;
    for (const Column& column : columns_) {
      // A piece that stays in the cache until it is where it belongs.
      const std::int64_t piece = std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, column.values));
      for (std::int64_t from = first; from < last; from += piece) {
        std::string wrong = LookupPiece(column, from, std::min(last, from + piece), &rows);
        if (!wrong.empty()) return wrong;
      }
    }
    return "";
  }

 private:
  static constexpr std::int64_t kPiece = 256;
  struct Column {
    Rows table;
    const std::int64_t* keys;
    std::int64_t values, before;  // of a sample; in the columns before
  };

  std::string LookupPiece(const Column& column, std::int64_t first, std::int64_t last, std::vector<float>* rows) const {
    const std::int64_t count = (last - first) * column.values, width = column.values * dim_;
    const auto place = [&](std::int64_t sample) { return weights_ + (sample * values_ + column.before) * dim_; };
    if (last - first == 1) return column.table->Lookup(column.keys + first * column.values, count, place(first));
    rows->resize(static_cast<std::size_t>(count * dim_));
    std::string wrong = column.table->Lookup(column.keys + first * column.values, count, rows->data());
    if (!wrong.empty()) return wrong;
    const float* row = rows->data();
    for (std::int64_t sample = first; sample < last; ++sample, row += width) std::copy_n(row, width, place(sample));
    return "";
  }

  const std::int64_t dim_;
  float* weights_ = nullptr;
  std::vector<Column> columns_;
  std::int64_t values_ = 0;
};

class LookupServedTablesOp : public OpKernel {
 public:
  explicit LookupServedTablesOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &tables_));
  }

  void Compute(OpKernelContext* context) override {
    SideBySide all(dim_);
    std::int64_t samples = 0;
    for (int i = 0; i < tables_; ++i) {
      OP_REQUIRES_VALUE(Rows table, context, LoadedRows(context, i, dim_));
      const Tensor& keys = context->input(tables_ + i);
      OP_REQUIRES(context, keys.dims() == 2 && (i == 0 || keys.dim_size(0) == samples),
                  absl::InvalidArgumentError("the keys of tables side by side are [n, values], n for all alike"));
      samples = keys.dim_size(0);
      all.Add(std::move(table), keys);
    }
    Tensor* weights = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {samples, all.values(), dim_}, &weights));
    all.SetWeights(weights->flat<float>().data());
    OP_REQUIRES_OK(context, OnThreads(context, samples, kCostOfAKey * all.values(),
                                      [&](std::int64_t first, std::int64_t last) { return all.Lookup(first, last); }));
  }

 private:
  std::int64_t dim_;
  int tables_;
};

REGISTER_KERNEL_BUILDER(Name("AfoLookupServed").Device(tensorflow::DEVICE_CPU), LookupServedOp);
REGISTER_KERNEL_BUILDER(Name("AfoLookupServedTables").Device(tensorflow::DEVICE_CPU), LookupServedTablesOp);

}  // namespace
}  // namespace afo
