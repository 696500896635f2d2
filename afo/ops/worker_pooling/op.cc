// Rows that the servers answered, back to samples: what a worker does after it has asked, and the gradients' way back.

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "afo/core/balanced_partition.h"
#include "afo/core/pooling.h"
#include "afo/ops/worker_pooling/inputs.h"
#include "afo/ops/resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::OpOutputList;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

// values, splits: each server's answer to its keys. places, lengths: as AfoUnique has them, of these features and perhaps
// of others behind them. bags: where each sample's ids begin, of the features that `bag_runs` names; of another each id is
// a sample. weights: one for each id, of the features that `weight_runs` names: TensorFlow spends more on an input than the operation on a short feature, so there is none in
// vain. pooled: one for each feature, [samples, dim]; or one alone, which has the features side by side, as many rows as
// the feature with the fewest samples has; others have a multiple of these, and some samples behind one another in a row.
REGISTER_OP("AfoPool")
    .Input("values: num_servers * float")
    .Input("splits: num_servers * int32")
    .Input("places: int32")
    .Input("lengths: int64")
    .Input("bags: num_bags * int64")
    .Input("weights: num_weights * float")
    .Attr("num_servers: int >= 1")
    .Attr("num_bags: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("bag_runs: list(int)")
    .Attr("weight_runs: list(int)")
    .Attr("run_tables: list(int) >= 1")
    .Attr("dims: list(int) >= 1")
    .Attr("combiners: list(int) >= 1")
    .Attr("max_norms: list(float) >= 1")
    .Attr("num_outputs: int >= 1")
    .Output("pooled: num_outputs * float")
    .SetShapeFn([](InferenceContext* c) {
      int outputs;
      std::vector<int> tables, dims;
      TF_RETURN_IF_ERROR(c->GetAttr("num_outputs", &outputs));
      TF_RETURN_IF_ERROR(c->GetAttr("run_tables", &tables));
      TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
      const auto runs = static_cast<int>(tables.size());
      for (int i = 0; i < runs; ++i) {
        if (tables[i] < 0 || tables[i] >= static_cast<int>(dims.size())) {
          return absl::InvalidArgumentError("run_tables names no table");
        }
        if (outputs == runs) c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, dims[tables[i]]));
      }
      if (outputs != runs) c->set_output(0, c->UnknownShapeOfRank(2));
      return absl::OkStatus();
    });

// The gradient of AfoPool with regard to `values`, flat as they are.
REGISTER_OP("AfoPoolGradient")
    .Input("gradients: num_outputs * float")
    .Input("values: num_servers * float")
    .Input("splits: num_servers * int32")
    .Input("places: int32")
    .Input("lengths: int64")
    .Input("bags: num_bags * int64")
    .Input("weights: num_weights * float")
    .Attr("num_outputs: int >= 1")
    .Attr("num_servers: int >= 1")
    .Attr("num_bags: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("bag_runs: list(int)")
    .Attr("weight_runs: list(int)")
    .Attr("run_tables: list(int) >= 1")
    .Attr("dims: list(int) >= 1")
    .Attr("combiners: list(int) >= 1")
    .Attr("max_norms: list(float) >= 1")
    .Output("summed: num_servers * float")
    .SetShapeFn([](InferenceContext* c) {
      int outputs, servers;
      TF_RETURN_IF_ERROR(c->GetAttr("num_outputs", &outputs));
      TF_RETURN_IF_ERROR(c->GetAttr("num_servers", &servers));
      for (int i = 0; i < servers; ++i) c->set_output(i, c->input(outputs + i));
      return absl::OkStatus();
    });

// The same with regard to `weights`.
REGISTER_OP("AfoPoolWeightGradient")
    .Input("gradients: num_outputs * float")
    .Input("values: num_servers * float")
    .Input("splits: num_servers * int32")
    .Input("places: int32")
    .Input("lengths: int64")
    .Input("bags: num_bags * int64")
    .Input("weights: num_weights * float")
    .Attr("num_outputs: int >= 1")
    .Attr("num_servers: int >= 1")
    .Attr("num_bags: int >= 0")
    .Attr("num_weights: int >= 0")
    .Attr("bag_runs: list(int)")
    .Attr("weight_runs: list(int)")
    .Attr("run_tables: list(int) >= 1")
    .Attr("dims: list(int) >= 1")
    .Attr("combiners: list(int) >= 1")
    .Attr("max_norms: list(float) >= 1")
    .Output("of_weights: num_weights * float")
    .SetShapeFn([](InferenceContext* c) {
      const int first = c->num_inputs() - c->num_outputs();
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(first + i));
      return absl::OkStatus();
    });

class PoolOp : public PoolBase {
 public:
  using PoolBase::PoolBase;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const Inputs in, context, Read(context));
    OpOutputList pooled;
    OP_REQUIRES_OK(context, context->output_list("pooled", &pooled));
    const std::vector<const float*> answers = Answers(in);
    std::vector<Tensor*> outputs(outputs_);
    if (joined()) OP_REQUIRES_OK(context, pooled.allocate(0, {in.joined_rows, in.joined_columns}, &outputs[0]));
    for (int run = 0; run < runs_; ++run) {
      const TableRows<const float> rows = RowsOf(in, run_tables_[run], answers);
      const Bags& bags = in.bags[run];
      Tensor*& out = outputs[OutputOf(run)];
      if (!joined()) OP_REQUIRES_OK(context, pooled.allocate(run, {bags.samples, rows.dim}, &out));
      float* target = out->flat<float>().data() + ColumnOf(in, run);
      const int64_t ids = in.ids[run];
      const int64_t cost = bags.samples == 0 ? 0 : 6 + kIdCost * ids / bags.samples;
      ThreadsOf(context)(bags.samples, cost,
                         [&](int64_t first, int64_t last) { Pool(rows, bags, first, last, target); });
    }
  }

 private:
  static constexpr int64_t kIdCost = 8;
};

class PoolGradientOp : public PoolBase {
 public:
  using PoolBase::PoolBase;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const Inputs in, context, ReadWithGradients(context));
    OpOutputList summed;
    OP_REQUIRES_OK(context, context->output_list("summed", &summed));
    std::vector<float*> sums;
    for (int server = 0; server < servers_; ++server) {
      Tensor* out = nullptr;
      OP_REQUIRES_OK(context, summed.allocate(server, in.values[server].shape(), &out));
      sums.push_back(out->flat<float>().data());
      std::memset(sums.back(), 0, out->NumElements() * sizeof(float));
    }
    const std::vector<const float*> answers = Answers(in);
    int parts = Parts(context, in);
    const std::optional<std::vector<int>> owners = Owners(in, parts);
    if (!owners.has_value()) parts = PartsOfRows(in, parts);
    // Each row belongs to one part, and each part to one thread: they never add to the same row.
    ThreadsOf(context)(parts, int64_t{1} << 20, [&](int64_t first, int64_t last) {
      for (int part = static_cast<int>(first); part < last; ++part) {
        for (int run = 0; run < runs_; ++run) {
          const int table = run_tables_[run];
          if (owners.has_value() && (*owners)[table] != part) continue;
          PoolGradient(RowsOf(in, table, sums), RowsOf(in, table, answers), in.bags[run],
                       in.gradients[OutputOf(run)].flat<float>().data() + ColumnOf(in, run),
                       owners.has_value() ? 0 : part, owners.has_value() ? 1 : parts);
        }
      }
    });
  }

 private:
  // The part of each table, so that no thread looks at another's ids. Nothing where that would leave threads without
  // work: rows go to parts then.
  std::optional<std::vector<int>> Owners(const Inputs& in, int parts) const {
    std::vector<int64_t> ids(dims_.size());
    for (int run = 0; run < runs_; ++run) ids[run_tables_[run]] += in.ids[run];
    return BalancedPartition(ids, parts);
  }

  // One for each thread, but not for little work.
  static int Parts(OpKernelContext* context, const Inputs& in) {
    int64_t floats = 0;
    for (const Tensor& values : in.values) floats += values.NumElements();
    const int threads = context->device()->tensorflow_cpu_worker_threads()->num_threads;
    return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({threads, 8, floats / 16384})));
  }

  // Each such part goes over all ids, and threads take a while to wake up: 106,496 ids were 0.85 ms of one thread and
  // 1.15 ms of two.
  static int PartsOfRows(const Inputs& in, int parts) {
    int64_t ids = 0;
    for (const int64_t of_run : in.ids) ids += of_run;
    return static_cast<int>(std::min<int64_t>(parts, 1 + ids / 131072));
  }
};

class PoolWeightGradientOp : public PoolBase {
 public:
  using PoolBase::PoolBase;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const Inputs in, context, ReadWithGradients(context));
    OpOutputList weights;
    OP_REQUIRES_OK(context, context->output_list("of_weights", &weights));
    const std::vector<const float*> answers = Answers(in);
    for (int run = 0; run < runs_; ++run) {
      if (weights_of_[run] < 0) continue;
      Tensor* out = nullptr;
      OP_REQUIRES_OK(context, weights.allocate(weights_of_[run], {in.ids[run]}, &out));
      PoolWeightGradient(RowsOf(in, run_tables_[run], answers), in.bags[run],
                         in.gradients[OutputOf(run)].flat<float>().data() + ColumnOf(in, run), 0, in.bags[run].samples,
                         out->flat<float>().data());
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoPool").Device(tensorflow::DEVICE_CPU), PoolOp);
REGISTER_KERNEL_BUILDER(Name("AfoPoolGradient").Device(tensorflow::DEVICE_CPU), PoolGradientOp);
REGISTER_KERNEL_BUILDER(Name("AfoPoolWeightGradient").Device(tensorflow::DEVICE_CPU), PoolWeightGradientOp);

}  // namespace
}  // namespace afo
