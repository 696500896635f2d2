// Rows that the servers answered, back to samples: what a worker does after it has asked, and the gradients' way back.

#include <memory>
#include <vector>

#include "../../core/deal.h"
#include "../../core/pooling.h"
#include "../../core/unique.h"
#include "../resource.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::OpOutputList;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

// values, splits: each server's answer to its keys. places, lengths: as AfoUnique has them, of these features and perhaps
// of others behind them. bags: where each sample's ids begin,
// of the features that `bag_runs` names; of another each id is a sample. weights: one for each id, of the features that
// `weight_runs` names: TensorFlow spends more on an input than the operation on a short feature, so there is none in
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

// What AfoPool and its gradient have in common: the features' bags, and where each table begins in the answers.
class PoolBase : public OpKernel {
 public:
  explicit PoolBase(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_servers", &servers_));
    OP_REQUIRES_OK(context, context->GetAttr("run_tables", &run_tables_));
    runs_ = static_cast<int>(run_tables_.size());
    OP_REQUIRES_OK(context, context->GetAttr("dims", &dims_));
    OP_REQUIRES_OK(context, context->GetAttr("combiners", &combiners_));
    OP_REQUIRES_OK(context, context->GetAttr("max_norms", &max_norms_));
    OP_REQUIRES_OK(context, context->GetAttr("num_outputs", &outputs_));
    OP_REQUIRES_OK(context, ReadRuns(context, "bag_runs", "num_bags", &bag_of_));
    OP_REQUIRES_OK(context, ReadRuns(context, "weight_runs", "num_weights", &weights_of_));
    OP_REQUIRES(context, outputs_ == runs_ || outputs_ == 1,
                absl::InvalidArgumentError("an output for each run, or one for all"));
    const auto runs = static_cast<std::size_t>(runs_);
    OP_REQUIRES(context, combiners_.size() == runs && max_norms_.size() == runs,
                absl::InvalidArgumentError("a table, a combiner and a norm for each run"));
    for (int i = 0; i < runs_; ++i) {
      OP_REQUIRES(context,
                  run_tables_[i] >= 0 && run_tables_[i] < static_cast<int>(dims_.size()) && combiners_[i] >= 0 &&
                      combiners_[i] <= 3,
                  absl::InvalidArgumentError("a run's table or combiner is out of its range"));
    }
  }

 protected:
  struct Inputs {
    OpInputList values, splits;
    std::vector<Bags> bags;
    std::vector<int64_t> ids;  // how many, [runs]
    // [tables][servers]: the floats of a server's answer before a table, and its rows.
    std::vector<std::vector<int64_t>> floats_before, rows;
    // Of one output for all: its rows and columns, and where each run's columns begin.
    int64_t joined_rows = 0, joined_columns = 0;
    std::vector<int64_t> first_column;
  };

  bool joined() const { return outputs_ != runs_; }
  // Which output a run is in, and where it begins there.
  int OutputOf(int run) const { return joined() ? 0 : run; }
  int64_t ColumnOf(const Inputs& in, int run) const { return joined() ? in.first_column[run] : 0; }

  absl::Status Read(OpKernelContext* context, Inputs* in) const {
    OpInputList bags, weights;
    const Tensor *places = nullptr, *lengths = nullptr;
    TF_RETURN_IF_ERROR(context->input_list("values", &in->values));
    TF_RETURN_IF_ERROR(context->input_list("splits", &in->splits));
    TF_RETURN_IF_ERROR(context->input("places", &places));
    TF_RETURN_IF_ERROR(context->input("lengths", &lengths));
    TF_RETURN_IF_ERROR(context->input_list("bags", &bags));
    TF_RETURN_IF_ERROR(context->input_list("weights", &weights));
    TF_RETURN_IF_ERROR(ReadAnswers(in));
    TF_RETURN_IF_ERROR(ReadIds(*places, *lengths, in));
    for (int run = 0; run < runs_; ++run) {
      Bags* bag = &in->bags[run];
      const int64_t ids = in->ids[run];
      if (bag_of_[run] >= 0) TF_RETURN_IF_ERROR(ReadBags(bags[bag_of_[run]], ids, bag));
      if (weights_of_[run] >= 0) TF_RETURN_IF_ERROR(ReadWeights(weights[weights_of_[run]], ids, bag));
      TF_RETURN_IF_ERROR(CheckPlaces(*in, run));
    }
    return joined() ? Join(in) : absl::OkStatus();
  }

  absl::Status ReadWithGradients(OpKernelContext* context, Inputs* in, OpInputList* gradients) const {
    TF_RETURN_IF_ERROR(Read(context, in));
    TF_RETURN_IF_ERROR(context->input_list("gradients", gradients));
    for (int i = 0; i < outputs_; ++i) {
      const int64_t wanted = joined() ? in->joined_rows * in->joined_columns
                                      : in->bags[i].samples * dims_[run_tables_[i]];
      if ((*gradients)[i].NumElements() != wanted) {
        return absl::InvalidArgumentError("a gradient has another shape than what it is of");
      }
    }
    return absl::OkStatus();
  }

  template <typename Float>
  TableRows<Float> RowsOf(const Inputs& in, int table, const std::vector<Float*>& answers) const {
    TableRows<Float> rows;
    rows.shift = PlaceShift(servers_);
    rows.dim = dims_[table];
    for (int server = 0; server < servers_; ++server) {
      rows.first.push_back(answers[server] + in.floats_before[table][server]);
    }
    return rows;
  }

  std::vector<const float*> Answers(const Inputs& in) const {
    std::vector<const float*> found;
    for (const Tensor& values : in.values) found.push_back(values.flat<float>().data());
    return found;
  }

  int runs_;
  int outputs_;
  int servers_;
  std::vector<int32_t> run_tables_, dims_, combiners_;
  std::vector<float> max_norms_;
  // Of each run which input its bags and its weights are; -1: none.
  std::vector<int> bag_of_, weights_of_;

 private:
  // Has all runs share the rows of one output.
  absl::Status Join(Inputs* in) const {
    in->joined_rows = in->bags[0].samples;
    for (const Bags& bags : in->bags) in->joined_rows = std::min(in->joined_rows, bags.samples);
    for (int run = 0; run < runs_; ++run) {
      Bags& bags = in->bags[run];
      if (in->joined_rows == 0 ? bags.samples > 0 : bags.samples % in->joined_rows != 0) {
        return absl::InvalidArgumentError(absl::StrCat("features side by side have a multiple of ", in->joined_rows,
                                                       " samples, and run ", run, " has ", bags.samples));
      }
      bags.group = in->joined_rows == 0 ? 1 : bags.samples / in->joined_rows;
      in->first_column.push_back(in->joined_columns);
      in->joined_columns += bags.group * dims_[run_tables_[run]];
    }
    for (Bags& bags : in->bags) bags.stride = in->joined_columns;
    return absl::OkStatus();
  }

  absl::Status ReadAnswers(Inputs* in) const {
    const auto tables = static_cast<int64_t>(dims_.size());
    in->floats_before.assign(tables, std::vector<int64_t>(servers_));
    in->rows.assign(tables, std::vector<int64_t>(servers_));
    for (int server = 0; server < servers_; ++server) {
      const Tensor& splits = in->splits[server];
      const int64_t keys = splits.NumElements() == 0 ? 0 : splits.flat<int32_t>()(splits.NumElements() - 1);
      TF_RETURN_IF_ERROR(CheckedSplits(splits, tables, keys));
      const auto ends = splits.vec<int32_t>();
      int64_t floats = 0;
      for (int64_t table = 0; table < tables; ++table) {
        in->floats_before[table][server] = floats;
        in->rows[table][server] = ends(table + 1) - ends(table);
        floats += in->rows[table][server] * dims_[table];
      }
      if (floats != in->values[server].NumElements()) {
        return absl::InvalidArgumentError(absl::StrCat("server ", server, " answered ",
                                                       in->values[server].NumElements(), " values instead of ",
                                                       floats));
      }
    }
    return absl::OkStatus();
  }

  // Of each run the number of its input, or -1.
  absl::Status ReadRuns(OpKernelConstruction* context, const char* names, const char* number,
                        std::vector<int>* found) const {
    std::vector<int32_t> runs;
    int inputs;
    TF_RETURN_IF_ERROR(context->GetAttr(names, &runs));
    TF_RETURN_IF_ERROR(context->GetAttr(number, &inputs));
    found->assign(runs_, -1);
    if (static_cast<int>(runs.size()) != inputs) {
      return absl::InvalidArgumentError(absl::StrCat(names, " names a run for each input"));
    }
    for (int i = 0; i < inputs; ++i) {
      if (runs[i] < 0 || runs[i] >= runs_ || (*found)[runs[i]] >= 0) {
        return absl::InvalidArgumentError(absl::StrCat(names, " names no run, or one twice"));
      }
      (*found)[runs[i]] = i;
    }
    return absl::OkStatus();
  }

  absl::Status ReadIds(const Tensor& places, const Tensor& lengths, Inputs* in) const {
    if (lengths.NumElements() < runs_) return absl::InvalidArgumentError("a length for each run");
    int64_t first = 0;
    for (int run = 0; run < runs_; ++run) {
      const int64_t ids = lengths.flat<int64_t>()(run);
      if (ids < 0 || ids > places.NumElements() - first) {
        return absl::InvalidArgumentError("lengths and places do not agree");
      }
      Bags bags;
      bags.places = places.flat<int32_t>().data() + first;
      bags.combiner = static_cast<Combiner>(combiners_[run]);
      bags.max_norm = max_norms_[run];
      bags.samples = ids;
      in->bags.push_back(bags);
      in->ids.push_back(ids);
      first += ids;
    }
    return absl::OkStatus();
  }

  static absl::Status ReadBags(const Tensor& bags, int64_t ids, Bags* out) {
    if (bags.NumElements() == 0) return absl::InvalidArgumentError("bags must begin with 0");
    const auto splits = bags.flat<int64_t>();
    out->samples = bags.NumElements() - 1;
    out->splits = splits.data();
    for (int64_t i = 0; i < out->samples; ++i) {
      if (splits(i) > splits(i + 1)) return absl::InvalidArgumentError("bags must not fall");
    }
    if (splits(0) == 0 && splits(out->samples) == ids) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("bags must go from 0 to the number of ids, ", ids));
  }

  static absl::Status ReadWeights(const Tensor& weights, int64_t ids, Bags* out) {
    if (weights.NumElements() != ids) return absl::InvalidArgumentError("a weight for each id");
    out->weights = weights.flat<float>().data();
    return absl::OkStatus();
  }

  // Places are this library's own, but a graph may bring others; nothing outside of an answer may be read.
  absl::Status CheckPlaces(const Inputs& in, int run) const {
    const int shift = PlaceShift(servers_);
    const std::vector<int64_t>& rows = in.rows[run_tables_[run]];
    bool fits = true;
    for (int64_t i = 0; i < in.ids[run]; ++i) {
      const auto bits = static_cast<std::uint32_t>(in.bags[run].places[i]);
      const std::uint32_t server = bits >> shift;
      fits &= server < static_cast<std::uint32_t>(servers_) &&
              static_cast<int64_t>(bits & ((1u << shift) - 1)) < rows[server < rows.size() ? server : 0];
    }
    return fits ? absl::OkStatus() : absl::InvalidArgumentError("a place is outside of the answers");
  }
};

class PoolOp : public PoolBase {
 public:
  using PoolBase::PoolBase;

  void Compute(OpKernelContext* context) override {
    Inputs in;
    OP_REQUIRES_OK(context, Read(context, &in));
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
    Inputs in;
    OpInputList gradients;
    OP_REQUIRES_OK(context, ReadWithGradients(context, &in, &gradients));
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
    const int parts = Parts(context, in);
    const std::vector<int> owners = Owners(in, parts);
    // Each row belongs to one part, and each part to one thread: they never add to the same row.
    ThreadsOf(context)(parts, int64_t{1} << 20, [&](int64_t first, int64_t last) {
      for (int part = static_cast<int>(first); part < last; ++part) {
        for (int run = 0; run < runs_; ++run) {
          const int table = run_tables_[run];
          if (!owners.empty() && owners[table] != part) continue;
          PoolGradient(RowsOf(in, table, sums), RowsOf(in, table, answers), in.bags[run],
                       gradients[OutputOf(run)].flat<float>().data() + ColumnOf(in, run),
                       owners.empty() ? part : 0, owners.empty() ? parts : 1);
        }
      }
    });
  }

 private:
  // The part of each table, so that no thread looks at another's ids and no two write to one line of the cache. Nothing
  // where that would leave threads without work: rows go to parts then.
  std::vector<int> Owners(const Inputs& in, int parts) const {
    std::vector<int64_t> ids(dims_.size());
    for (int run = 0; run < runs_; ++run) ids[run_tables_[run]] += in.ids[run];
    return DealOut(ids, parts);
  }

  // One for each thread, but not for few ids: each part goes over all of them.
  static int Parts(OpKernelContext* context, const Inputs& in) {
    int64_t floats = 0;
    for (const Tensor& values : in.values) floats += values.NumElements();
    const int threads = context->device()->tensorflow_cpu_worker_threads()->num_threads;
    return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({threads, 8, floats / 16384})));
  }
};

class PoolWeightGradientOp : public PoolBase {
 public:
  using PoolBase::PoolBase;

  void Compute(OpKernelContext* context) override {
    Inputs in;
    OpInputList gradients;
    OP_REQUIRES_OK(context, ReadWithGradients(context, &in, &gradients));
    OpOutputList weights;
    OP_REQUIRES_OK(context, context->output_list("of_weights", &weights));
    const std::vector<const float*> answers = Answers(in);
    for (int run = 0; run < runs_; ++run) {
      if (weights_of_[run] < 0) continue;
      Tensor* out = nullptr;
      OP_REQUIRES_OK(context, weights.allocate(weights_of_[run], {in.ids[run]}, &out));
      PoolWeightGradient(RowsOf(in, run_tables_[run], answers), in.bags[run],
                         gradients[OutputOf(run)].flat<float>().data() + ColumnOf(in, run), 0, in.bags[run].samples,
                         out->flat<float>().data());
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoPool").Device(tensorflow::DEVICE_CPU), PoolOp);
REGISTER_KERNEL_BUILDER(Name("AfoPoolGradient").Device(tensorflow::DEVICE_CPU), PoolGradientOp);
REGISTER_KERNEL_BUILDER(Name("AfoPoolWeightGradient").Device(tensorflow::DEVICE_CPU), PoolWeightGradientOp);

}  // namespace
}  // namespace afo
