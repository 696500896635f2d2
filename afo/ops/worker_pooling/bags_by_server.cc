// The ids of bags by the server that has their keys, for servers that pool (afo/core/pooled_calls.cc).

#include <algorithm>
#include <vector>

#include "afo/core/unique.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

constexpr int64_t kNear = 1 << 16;

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
    const bool weighted =
        std::any_of(weights.begin(), weights.end(), [](const Tensor& each) { return each.NumElements() > 0; });
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
    TF_RETURN_IF_ERROR(
        context->allocate_output(1 + 3 * servers_ + server, {static_cast<int64_t>(part.weights.size())}, &weights));
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

REGISTER_KERNEL_BUILDER(Name("AfoBagsByServer").Device(tensorflow::DEVICE_CPU), BagsByServerOp);

}  // namespace
}  // namespace afo
