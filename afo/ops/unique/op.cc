// The different keys of a batch, by server: what a worker does before it asks.

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/core/unique.h"
#include "afo/ops/resource.h"
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

// ids: one tensor a feature. run_tables: the table of each, below `num_tables`. slot_starts: the first slot of each
// server. For each server its keys, where in them a table begins, and how often each was in the batch. places: of each
// id the place of its key, feature by feature; lengths: how many ids each feature has.
REGISTER_OP("AfoUnique")
    .Input("ids: num_runs * int64")
    .Attr("num_runs: int >= 1")
    .Attr("run_tables: list(int) >= 1")
    .Attr("num_tables: int >= 1")
    .Attr("num_servers: int >= 1")
    .Attr("slot_starts: list(int) >= 1")
    .Output("keys: num_servers * int64")
    .Output("splits: num_servers * int32")
    .Output("counts: num_servers * int32")
    .Output("places: int32")
    .Output("lengths: int64")
    .SetShapeFn([](InferenceContext* c) {
      int runs, servers, tables;
      TF_RETURN_IF_ERROR(c->GetAttr("num_runs", &runs));
      TF_RETURN_IF_ERROR(c->GetAttr("num_servers", &servers));
      TF_RETURN_IF_ERROR(c->GetAttr("num_tables", &tables));
      for (int i = 0; i < 3 * servers; ++i) c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
      for (int i = servers; i < 2 * servers; ++i) c->set_output(i, c->Vector(int64_t{tables} + 1));
      c->set_output(3 * servers, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(3 * servers + 1, c->Vector(runs));
      return absl::OkStatus();
    });

// Tables times servers, whose keys are counted each: far more than any job has.
constexpr int64_t kMostParts = 1 << 24;

class UniqueOp : public OpKernel {
 public:
  explicit UniqueOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("run_tables", &run_tables_));
    OP_REQUIRES_OK(context, context->GetAttr("num_tables", &tables_));
    OP_REQUIRES_OK(context, context->GetAttr("num_servers", &servers_));
    std::vector<int64_t> starts;
    OP_REQUIRES_OK(context, context->GetAttr("slot_starts", &starts));
    CheckedSlotMap slots = SlotMap::FromStarts(starts, 0);
    OP_REQUIRES(context, slots.map.has_value(), absl::InvalidArgumentError(slots.problem));
    slots_ = *std::move(slots.map);
    OP_REQUIRES(context, slots_.servers() == static_cast<std::uint32_t>(servers_),
                absl::InvalidArgumentError(absl::StrCat("slot_starts of ", starts.size(), " servers, and num_servers is ",
                                                        servers_, ": give each server its first slot")));
    OP_REQUIRES(context, int64_t{tables_} * servers_ <= kMostParts,
                absl::InvalidArgumentError(absl::StrCat("tables times servers may be ", kMostParts)));
    for (const int table : run_tables_) {
      OP_REQUIRES(context, table >= 0 && table < tables_, absl::InvalidArgumentError("run_tables names no table"));
    }
  }

  void Compute(OpKernelContext* context) override {
    OpInputList ids;
    OP_REQUIRES_OK(context, context->input_list("ids", &ids));
    OP_REQUIRES(context, ids.size() == static_cast<int>(run_tables_.size()),
                absl::InvalidArgumentError("a table for each run"));
    std::vector<IdRun> runs;
    int64_t all = 0;
    for (int i = 0; i < ids.size(); ++i) {
      runs.push_back({ids[i].flat<int64_t>().data(), ids[i].NumElements(), run_tables_[i]});
      all += ids[i].NumElements();
    }
    OP_REQUIRES(context, all < (int64_t{1} << 31),
                absl::InvalidArgumentError(absl::StrCat("a batch may have 2^31 ids and has ", all)));
    // A kernel may run for several batches at once; each thread keeps its own scratch.
    thread_local UniquePartition partition;
    Tensor *places = nullptr, *lengths = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(3 * servers_, {all}, &places));
    OP_REQUIRES_OK(context, context->allocate_output(3 * servers_ + 1, {ids.size()}, &lengths));
    for (int i = 0; i < ids.size(); ++i) lengths->vec<int64_t>()(i) = ids[i].NumElements();
    const std::optional<UniqueKeys> found = partition.Run(runs, tables_, slots_, places->vec<int32_t>().data());
    OP_REQUIRES(context, found.has_value(),
                absl::InvalidArgumentError("a batch has too many different keys for so many servers"));
    OP_REQUIRES_OK(context, Emit(context, *found));
  }

 private:
  template <typename From>
  static absl::Status Copy(const From* from, int64_t count, int number, OpOutputList* list) {
    Tensor* to = nullptr;
    TF_RETURN_IF_ERROR(list->allocate(number, {count}, &to));
    std::memcpy(to->data(), from, count * sizeof(From));
    return absl::OkStatus();
  }

  absl::Status Emit(OpKernelContext* context, const UniqueKeys& found) const {
    OpOutputList keys, splits, counts;
    TF_RETURN_IF_ERROR(context->output_list("keys", &keys));
    TF_RETURN_IF_ERROR(context->output_list("splits", &splits));
    TF_RETURN_IF_ERROR(context->output_list("counts", &counts));
    int64_t first = 0;
    for (int server = 0; server < servers_; ++server) {
      const std::int32_t* ends = found.splits.data() + int64_t{server} * (tables_ + 1);
      TF_RETURN_IF_ERROR(Copy(found.keys.data() + first, ends[tables_], server, &keys));
      TF_RETURN_IF_ERROR(Copy(found.counts.data() + first, ends[tables_], server, &counts));
      TF_RETURN_IF_ERROR(Copy(ends, tables_ + 1, server, &splits));
      first += ends[tables_];
    }
    return absl::OkStatus();
  }

  std::vector<int32_t> run_tables_;
  int tables_;
  int servers_;
  SlotMap slots_ = SlotMap::EqualRanges(1);
};

REGISTER_KERNEL_BUILDER(Name("AfoUnique").Device(tensorflow::DEVICE_CPU), UniqueOp);

}  // namespace
}  // namespace afo
