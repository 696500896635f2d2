// Bags that are pooled where their rows lie: a server answers with one sum a sample instead of a row an id.
//
// For one server, all features of a step behind one another:
//   keys, splits     the different keys, as AfoUnique made them for this server
//   samples [R]      how many samples each feature has
//   lengths          for each sample how many of its ids this server has
//   near | far       for each of these ids the number of its key in its table: 16 bits where they suffice, else 32; the
//                    other is empty
//   weights          for each of these ids, or empty

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/core/pooling.h"
#include "afo/core/unique.h"
#include "afo/ops/batch_input.h"
#include "tensorflow/core/framework/bfloat16.h"
#include "tensorflow/core/framework/common_shape_fns.h"
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

constexpr int64_t kNear = 1 << 16;
// What a thread sums up in float before it is made short, in samples.
constexpr int64_t kSumsAtOnce = 256;

// A few keys may ask for more rows than there is memory; an exception would end the server.
absl::Status MakeRoom(int64_t floats, std::vector<float>& room) {
  try {
    room.resize(floats);
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory is left for ", floats, " floats of a batch"));
  }
}

REGISTER_OP("AfoBagsByServer")
    .Input("splits: num_servers * int32")
    .Input("places: int32")
    .Input("run_lengths: int64")
    .Input("bags: num_runs * int64")
    .Input("weights: num_runs * float")
    .Attr("num_servers: int >= 1")
    .Attr("num_runs: int >= 1")
    .Output("samples: int32")
    .Output("lengths: num_servers * int32")
    .Output("near: num_servers * uint16")
    .Output("far: num_servers * int32")
    .Output("server_weights: num_servers * float")
    .SetShapeFn([](InferenceContext* c) {
      int runs, servers;
      TF_RETURN_IF_ERROR(c->GetAttr("num_runs", &runs));
      TF_RETURN_IF_ERROR(c->GetAttr("num_servers", &servers));
      c->set_output(0, c->Vector(runs));
      for (int i = 0; i < 4 * servers; ++i) c->set_output(1 + i, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    });

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

class BagsByServerOp : public OpKernel {
 public:
  explicit BagsByServerOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_servers", &servers_));
    OP_REQUIRES_OK(context, context->GetAttr("num_runs", &runs_));
  }

  void Compute(OpKernelContext* context) override {
    OpInputList splits, bags, weights;
    const Tensor *places = nullptr, *lengths = nullptr;
    OP_REQUIRES_OK(context, context->input_list("splits", &splits));
    OP_REQUIRES_OK(context, context->input("places", &places));
    OP_REQUIRES_OK(context, context->input("run_lengths", &lengths));
    OP_REQUIRES_OK(context, context->input_list("bags", &bags));
    OP_REQUIRES_OK(context, context->input_list("weights", &weights));
    std::vector<ServerBags> parts(servers_);
    const bool weighted = std::any_of(weights.begin(), weights.end(),
                                      [](const Tensor& each) { return each.NumElements() > 0; });
    Tensor* samples = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {runs_}, &samples));
    OP_REQUIRES(context, lengths->NumElements() == runs_, absl::InvalidArgumentError("a length for each run"));
    const int32_t* first = places->flat<int32_t>().data();
    const int32_t* const end = first + places->NumElements();
    for (int run = 0; run < runs_; ++run) {
      const int64_t ids = lengths->flat<int64_t>()(run);
      OP_REQUIRES(context, ids >= 0 && ids <= end - first,
                  absl::InvalidArgumentError("lengths and places do not agree"));
      OP_REQUIRES_OK(context, AddRun(first, ids, bags[run], weights[run], weighted, parts));
      samples->vec<int32_t>()(run) = static_cast<int32_t>(SamplesOf(ids, bags[run]));
      first += ids;
    }
    for (int server = 0; server < servers_; ++server) {
      const auto ends = splits[server].flat<int32_t>();
      const int32_t keys = ends.size() == 0 ? 0 : ends(ends.size() - 1);
      const bool is_near = keys <= kNear;
      const std::vector<int32_t>& numbers = parts[server].numbers;
      // One that names no key might not fit into the bits that are sent.
      OP_REQUIRES(context, std::all_of(numbers.begin(), numbers.end(), [keys](int32_t each) { return each < keys; }),
                  absl::InvalidArgumentError("a place names no key"));
      OP_REQUIRES_OK(context, Emit(context, server, parts[server], is_near));
    }
  }

 private:
  // What one server has of all bags.
  struct ServerBags {
    std::vector<int32_t> lengths, numbers;
    std::vector<float> weights;
  };

  static int64_t SamplesOf(int64_t ids, const Tensor& bags) {
    return bags.NumElements() == 0 ? ids : bags.NumElements() - 1;
  }

  // Adds the bags of a run to what each server has of them.
  absl::Status AddRun(const int32_t* places, int64_t ids, const Tensor& bags, const Tensor& weights, bool weighted,
                      std::vector<ServerBags>& parts) const {
    if (weights.NumElements() != 0 && weights.NumElements() != ids) {
      return absl::InvalidArgumentError("a weight for each id");
    }
    const auto splits = bags.flat<int64_t>();
    const int shift = PlaceShift(servers_);
    const int64_t samples = SamplesOf(ids, bags);
    for (int64_t sample = 0; sample < samples; ++sample) {
      const int64_t first = bags.NumElements() == 0 ? sample : splits(sample);
      const int64_t last = bags.NumElements() == 0 ? sample + 1 : splits(sample + 1);
      if (first < 0 || first > last || last > ids) return absl::InvalidArgumentError("bags must not fall");
      for (ServerBags& each : parts) each.lengths.push_back(0);
      for (int64_t i = first; i < last; ++i) {
        const auto bits = static_cast<std::uint32_t>(places[i]);
        if (bits >> shift >= static_cast<std::uint32_t>(servers_)) {
          return absl::InvalidArgumentError("a place names no server");
        }
        ServerBags& mine = parts[bits >> shift];
        ++mine.lengths.back();
        mine.numbers.push_back(static_cast<int32_t>(bits & ((1u << shift) - 1)));
        if (weighted) mine.weights.push_back(weights.NumElements() == 0 ? 1.0f : weights.flat<float>()(i));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Emit(OpKernelContext* context, int server, const ServerBags& part, bool is_near) const {
    const auto ids = static_cast<int64_t>(part.numbers.size());
    Tensor *lengths = nullptr, *near = nullptr, *far = nullptr, *weights = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(1 + server, {static_cast<int64_t>(part.lengths.size())}, &lengths));
    TF_RETURN_IF_ERROR(context->allocate_output(1 + servers_ + server, {is_near ? ids : 0}, &near));
    TF_RETURN_IF_ERROR(context->allocate_output(1 + 2 * servers_ + server, {is_near ? 0 : ids}, &far));
    TF_RETURN_IF_ERROR(context->allocate_output(1 + 3 * servers_ + server,
                                                {static_cast<int64_t>(part.weights.size())}, &weights));
    std::copy(part.lengths.begin(), part.lengths.end(), lengths->flat<int32_t>().data());
    std::copy(part.weights.begin(), part.weights.end(), weights->flat<float>().data());
    if (is_near) {
      std::copy(part.numbers.begin(), part.numbers.end(), near->flat<uint16_t>().data());
    } else {
      std::copy(part.numbers.begin(), part.numbers.end(), far->flat<int32_t>().data());
    }
    return absl::OkStatus();
  }

  int servers_;
  int runs_;
};

// What both server's operations read: the tables' keys, and each feature's bags over their rows.
class PooledBase : public OpKernel {
 public:
  explicit PooledBase(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
    OP_REQUIRES_OK(context, context->GetAttr("run_tables", &run_tables_));
    OP_REQUIRES_OK(context, context->GetAttr("max_norms", &max_norms_));
    OP_REQUIRES(context, run_tables_.size() == max_norms_.size(),
                absl::InvalidArgumentError("a table and a norm for each run"));
    for (const int table : run_tables_) {
      OP_REQUIRES(context, table >= 0 && table < static_cast<int>(numbers_.size()),
                  absl::InvalidArgumentError("run_tables names no table"));
    }
  }

 protected:
  struct Inputs : BatchInput {
    std::vector<int32_t> places;     // wide, whatever they came as
    std::vector<int64_t> splits;     // of all runs, each from 0
    std::vector<Bags> bags;
    std::vector<int64_t> first_out{0};  // where each run's samples begin in the flat answer
  };

  absl::StatusOr<Inputs> Read(OpKernelContext* context) const {
    TF_ASSIGN_OR_RETURN(BatchInput batch, ReadBatch(context, numbers_));
    Inputs in{std::move(batch)};
    TF_ASSIGN_OR_RETURN(in.places, ReadPlaces(context));
    const auto ids = static_cast<int64_t>(in.places.size());
    const auto samples = context->input(3).flat<int32_t>();
    const int64_t lengths = context->input(4).NumElements();
    if (samples.size() != static_cast<int64_t>(run_tables_.size())) {
      return absl::InvalidArgumentError("a number of samples for each run");
    }
    const int64_t weights = context->input(7).NumElements();
    if (weights != 0 && weights != ids) return absl::InvalidArgumentError("a weight for each id");
    in.splits.resize(lengths + samples.size());
    int64_t sample = 0, id = 0;
    for (std::size_t run = 0; run < run_tables_.size(); ++run) {
      const int64_t count = samples(run);
      if (count < 0 || sample + count > lengths) {
        return absl::InvalidArgumentError("samples and lengths do not agree");
      }
      TF_RETURN_IF_ERROR(AddBags(context, run, sample, id, in));
      in.first_out.push_back(in.first_out.back() + count * DimOf(in, run));
      sample += count;
      id += in.bags.back().splits[count];
    }
    if (sample == lengths && id == ids) return in;
    return absl::InvalidArgumentError("samples, lengths and ids do not agree");
  }

  int32_t DimOf(const Inputs& in, std::size_t run) const { return in.parts[run_tables_[run]].table->options().dim; }

  // The rows of a run's table in a flat tensor of all tables.
  template <typename Float>
  TableRows<Float> RowsOf(const Inputs& in, std::size_t run, Float* flat) const {
    TableRows<Float> rows;
    rows.first = {flat + in.floats[run_tables_[run]]};
    rows.shift = PlaceShift(1);
    rows.dim = DimOf(in, run);
    return rows;
  }

  std::vector<int32_t> run_tables_;

 private:
  // Adds the bags of a run, whose samples and ids begin at these places among those of all runs.
  absl::Status AddBags(OpKernelContext* context, std::size_t run, int64_t sample, int64_t id, Inputs& in) const {
    const auto lengths = context->input(4).flat<int32_t>();
    const Tensor& weights = context->input(7);
    const auto ids = static_cast<int64_t>(in.places.size());
    Bags bags;
    bags.samples = context->input(3).flat<int32_t>()(run);
    bags.combiner = Combiner::kSum;
    bags.max_norm = max_norms_[run];
    bags.places = in.places.data() + id;
    bags.weights = weights.NumElements() == 0 ? nullptr : weights.flat<float>().data() + id;
    int64_t* splits = in.splits.data() + sample + run;
    splits[0] = 0;
    for (int64_t i = 0; i < bags.samples; ++i) {
      const int64_t length = lengths(sample + i);
      if (length < 0 || id + splits[i] + length > ids) {
        return absl::InvalidArgumentError("lengths and ids do not agree");
      }
      splits[i + 1] = splits[i] + length;
    }
    bags.splits = splits;
    in.bags.push_back(bags);
    return CheckPlaces(in, bags, run);
  }

  static absl::StatusOr<std::vector<int32_t>> ReadPlaces(OpKernelContext* context) {
    const auto near = context->input(5).flat<uint16_t>();
    const auto far = context->input(6).flat<int32_t>();
    if (near.size() > 0 && far.size() > 0) return absl::InvalidArgumentError("ids are near or far, and not both");
    if (near.size() > 0) return std::vector<int32_t>(near.data(), near.data() + near.size());
    return std::vector<int32_t>(far.data(), far.data() + far.size());
  }

  absl::Status CheckPlaces(const Inputs& in, const Bags& bags, std::size_t run) const {
    const auto rows = static_cast<std::uint32_t>(in.parts[run_tables_[run]].count);
    const int64_t ids = bags.splits[bags.samples];
    const bool fits = std::all_of(bags.places, bags.places + ids,
                                  [rows](int32_t place) { return static_cast<std::uint32_t>(place) < rows; });
    return fits ? absl::OkStatus() : absl::InvalidArgumentError("an id names no key");
  }

  std::vector<int32_t> numbers_;
  std::vector<float> max_norms_;
};

template <typename T>
class PoolRowsOp : public PooledBase {
 public:
  explicit PoolRowsOp(OpKernelConstruction* context) : PooledBase(context) {
    OP_REQUIRES_OK(context, context->GetAttr("insert", &insert_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const Inputs in, context, Read(context));
    Tensor *pooled = nullptr, *numbers = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {in.first_out.back()}, &pooled));
    OP_REQUIRES_OK(context,
                   context->allocate_output(1, {insert_ ? context->input(1).NumElements() : 0}, &numbers));
    thread_local std::vector<float> rows;
    OP_REQUIRES_OK(context, MakeRoom(in.floats.back(), rows));
    const std::vector<LookupOutput> to = OutputsPerTable(in, rows.data(), insert_ ? numbers : nullptr);
    if (insert_) {
      OP_REQUIRES_OK(context, StatusOf(LookupOrInsert(in.parts, to, ThreadsOf(context))));
    } else {
      Lookup(in.parts, to, ThreadsOf(context));
    }
    PoolAll(context, in, rows.data(), pooled->flat<T>().data());
  }

 private:
  void PoolAll(OpKernelContext* context, const Inputs& in, const float* rows, T* out) const {
    constexpr int64_t kIdCost = 10;
    for (std::size_t run = 0; run < in.bags.size(); ++run) {
      const Bags& bags = in.bags[run];
      const TableRows<const float> from = RowsOf(in, run, rows);
      const int64_t cost = bags.samples == 0 ? 0 : kIdCost * (1 + bags.splits[bags.samples] / bags.samples);
      T* target = out + in.first_out[run];
      ThreadsOf(context)(bags.samples, cost, [&](int64_t first, int64_t last) {
        PoolTo(from, bags, first, last, target);
      });
    }
  }

  static void PoolTo(const TableRows<const float>& rows, const Bags& bags, int64_t first, int64_t last, T* out) {
    if constexpr (std::is_same_v<T, float>) {
      Pool(rows, bags, first, last, out);
    } else {
      // Sums in float; only what goes over the wire is short.
      std::vector<float> sums;
      for (int64_t begin = first; begin < last; begin += kSumsAtOnce) {
        const int64_t samples = std::min(kSumsAtOnce, last - begin);
        sums.assign(static_cast<std::size_t>(samples * rows.dim), 0.0f);
        Bags mine = bags;
        mine.splits += begin;
        Pool(rows, mine, 0, samples, sums.data());
        for (std::size_t i = 0; i < sums.size(); ++i) out[begin * rows.dim + i] = static_cast<T>(sums[i]);
      }
    }
  }

  bool insert_;
};

template <typename T>
class ApplyPooledOp : public PooledBase {
 public:
  using PooledBase::PooledBase;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const Inputs in, context, Read(context));
    OP_REQUIRES_VALUE(const StepInfo info, context, StepInfoOf(context->input(11), context->input(12)));
    const auto given = context->input(10).flat<T>();
    OP_REQUIRES(context, given.size() == in.first_out.back(),
                absl::InvalidArgumentError(absl::StrCat("gradients must have ", in.first_out.back(),
                                                        " elements, and have ", given.size())));
    // Kept, for fresh memory costs more than the work on it.
    thread_local std::vector<float> gradients, sums, rows;
    OP_REQUIRES_OK(context, MakeRoom(in.floats.back(), sums));
    OP_REQUIRES_OK(context, MakeRoom(in.floats.back(), rows));
    OP_REQUIRES_OK(context, MakeRoom(given.size(), gradients));
    std::fill(sums.begin(), sums.end(), 0.0f);
    OP_REQUIRES_VALUE(const std::vector<RowGradients> of, context,
                      GradientsPerTable(in, sums.data(), context->input(8), context->input(9)));
    for (int64_t i = 0; i < given.size(); ++i) gradients[i] = static_cast<float>(given(i));
    SumByRow(context, in, gradients, rows.data(), sums.data());
    OP_REQUIRES_OK(context, StatusOf(Apply(in.parts, of, info, ThreadsOf(context))));
  }

 private:
  // Adds to `sums`, flat as the rows, for which `rows` is room.
  void SumByRow(OpKernelContext* context, const Inputs& in, const std::vector<float>& gradients, float* rows,
                float* sums) const {
    // A norm that shortens rows is in the gradient: by the rows as they are now, newer perhaps than what was pooled.
    if (std::any_of(in.bags.begin(), in.bags.end(), [](const Bags& bags) { return bags.max_norm > 0; })) {
      Lookup(in.parts, OutputsPerTable(in, rows, nullptr), ThreadsOf(context));
    }
    for (std::size_t run = 0; run < in.bags.size(); ++run) {
      PoolGradient(RowsOf(in, run, sums), RowsOf<const float>(in, run, rows), in.bags[run],
                   gradients.data() + in.first_out[run], 0, 1);
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoBagsByServer").Device(tensorflow::DEVICE_CPU), BagsByServerOp);
REGISTER_KERNEL_BUILDER(Name("AfoPoolRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
                        PoolRowsOp<float>);
REGISTER_KERNEL_BUILDER(
    Name("AfoPoolRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<tensorflow::bfloat16>("T"),
    PoolRowsOp<tensorflow::bfloat16>);
REGISTER_KERNEL_BUILDER(Name("AfoApplyPooled").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
                        ApplyPooledOp<float>);
REGISTER_KERNEL_BUILDER(
    Name("AfoApplyPooled").Device(tensorflow::DEVICE_CPU).TypeConstraint<tensorflow::bfloat16>("T"),
    ApplyPooledOp<tensorflow::bfloat16>);

}  // namespace
}  // namespace afo
