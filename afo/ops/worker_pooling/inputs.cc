#include "afo/ops/worker_pooling/inputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "afo/ops/resource.h"

namespace afo {

using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

namespace {

absl::Status SetBags(const Tensor& bags, int64_t ids, Bags& out) {
  if (bags.NumElements() == 0) return absl::InvalidArgumentError("bags must begin with 0");
  const auto splits = bags.flat<int64_t>();
  out.samples = bags.NumElements() - 1;
  out.splits = splits.data();
  for (int64_t i = 0; i < out.samples; ++i) {
    if (splits(i) > splits(i + 1)) return absl::InvalidArgumentError("bags must not fall");
  }
  if (splits(0) == 0 && splits(out.samples) == ids) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("bags must go from 0 to the number of ids, ", ids));
}

absl::Status SetWeights(const Tensor& weights, int64_t ids, Bags& out) {
  if (weights.NumElements() != ids) return absl::InvalidArgumentError("a weight for each id");
  out.weights = weights.flat<float>().data();
  return absl::OkStatus();
}

}  // namespace

PoolBase::PoolBase(OpKernelConstruction* context) : OpKernel(context) {
  OP_REQUIRES_OK(context, context->GetAttr("num_servers", &servers_));
  OP_REQUIRES_OK(context, context->GetAttr("run_tables", &run_tables_));
  runs_ = static_cast<int>(run_tables_.size());
  OP_REQUIRES_OK(context, context->GetAttr("dims", &dims_));
  OP_REQUIRES_OK(context, context->GetAttr("combiners", &combiners_));
  OP_REQUIRES_OK(context, context->GetAttr("max_norms", &max_norms_));
  OP_REQUIRES_OK(context, context->GetAttr("num_outputs", &outputs_));
  OP_REQUIRES_VALUE(bag_of_, context, ReadRuns(context, "bag_runs", "num_bags"));
  OP_REQUIRES_VALUE(weights_of_, context, ReadRuns(context, "weight_runs", "num_weights"));
  OP_REQUIRES(context, outputs_ == runs_ || outputs_ == 1,
              absl::InvalidArgumentError("an output for each run, or one for all"));
  const auto runs = static_cast<std::size_t>(runs_);
  OP_REQUIRES(context, combiners_.size() == runs && max_norms_.size() == runs,
              absl::InvalidArgumentError("a table, a combiner and a norm for each run"));
  // Negative widths could add up to the floats of an answer, and rows lie outside of it.
  OP_REQUIRES(context, std::all_of(dims_.begin(), dims_.end(), [](int32_t dim) { return dim >= 1 && dim <= kMaxDim; }),
              absl::InvalidArgumentError(absl::StrCat("the width of a table is 1 to ", kMaxDim)));
  for (int i = 0; i < runs_; ++i) {
    OP_REQUIRES(context,
                run_tables_[i] >= 0 && run_tables_[i] < static_cast<int>(dims_.size()) && combiners_[i] >= 0 &&
                    combiners_[i] <= 3,
                absl::InvalidArgumentError("a run's table or combiner is out of its range"));
  }
}

absl::StatusOr<PoolBase::Inputs> PoolBase::Read(OpKernelContext* context) const {
  Inputs in;
  OpInputList bags, weights;
  const Tensor *places = nullptr, *lengths = nullptr;
  TF_RETURN_IF_ERROR(context->input_list("values", &in.values));
  TF_RETURN_IF_ERROR(context->input_list("splits", &in.splits));
  TF_RETURN_IF_ERROR(context->input("places", &places));
  TF_RETURN_IF_ERROR(context->input("lengths", &lengths));
  TF_RETURN_IF_ERROR(context->input_list("bags", &bags));
  TF_RETURN_IF_ERROR(context->input_list("weights", &weights));
  TF_RETURN_IF_ERROR(ReadAnswers(&in));
  TF_RETURN_IF_ERROR(ReadIds(*places, *lengths, &in));
  for (int run = 0; run < runs_; ++run) {
    Bags& bag = in.bags[run];
    const int64_t ids = in.ids[run];
    if (bag_of_[run] >= 0) TF_RETURN_IF_ERROR(SetBags(bags[bag_of_[run]], ids, bag));
    if (weights_of_[run] >= 0) TF_RETURN_IF_ERROR(SetWeights(weights[weights_of_[run]], ids, bag));
    TF_RETURN_IF_ERROR(CheckPlaces(in, run));
  }
  if (joined()) TF_RETURN_IF_ERROR(Join(&in));
  return in;
}

absl::StatusOr<PoolBase::Inputs> PoolBase::ReadWithGradients(OpKernelContext* context) const {
  TF_ASSIGN_OR_RETURN(Inputs in, Read(context));
  TF_RETURN_IF_ERROR(context->input_list("gradients", &in.gradients));
  for (int i = 0; i < outputs_; ++i) {
    const int64_t wanted = joined() ? in.joined_rows * in.joined_columns : in.bags[i].samples * dims_[run_tables_[i]];
    if (in.gradients[i].NumElements() != wanted) {
      return absl::InvalidArgumentError("a gradient has another shape than what it is of");
    }
  }
  return in;
}

std::vector<const float*> PoolBase::Answers(const Inputs& in) {
  std::vector<const float*> found;
  for (const Tensor& values : in.values) found.push_back(values.flat<float>().data());
  return found;
}

absl::StatusOr<std::vector<int>> PoolBase::ReadRuns(OpKernelConstruction* context, const char* names,
                                                    const char* number) const {
  std::vector<int32_t> runs;
  int inputs;
  TF_RETURN_IF_ERROR(context->GetAttr(names, &runs));
  TF_RETURN_IF_ERROR(context->GetAttr(number, &inputs));
  std::vector<int> found(runs_, -1);
  if (static_cast<int>(runs.size()) != inputs) {
    return absl::InvalidArgumentError(absl::StrCat(names, " names a run for each input"));
  }
  for (int i = 0; i < inputs; ++i) {
    if (runs[i] < 0 || runs[i] >= runs_ || found[runs[i]] >= 0) {
      return absl::InvalidArgumentError(absl::StrCat(names, " names no run, or one twice"));
    }
    found[runs[i]] = i;
  }
  return found;
}

absl::Status PoolBase::ReadAnswers(Inputs* in) const {
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

absl::Status PoolBase::ReadIds(const Tensor& places, const Tensor& lengths, Inputs* in) const {
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

// Places are this library's own, but a graph may bring others; nothing outside of an answer may be read.
absl::Status PoolBase::CheckPlaces(const Inputs& in, int run) const {
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

absl::Status PoolBase::Join(Inputs* in) const {
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

}  // namespace afo
