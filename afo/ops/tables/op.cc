// Creating embedding tables, and what they hold.

#include <vector>

#include "../resource.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("AfoEmbeddingTables")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Output("tables: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// The order of the numbers is that of OptimizerOptions, and of AdmissionOptions.
REGISTER_OP("AfoAddTable")
    .Input("tables: resource")
    .Attr("number: int >= 0")
    .Attr("dim: int >= 1")
    .Attr("rule: int >= 0")
    .Attr("optimizer: list(float)")
    .Attr("distribution: int >= 0")
    .Attr("initializer: list(float)")
    .Attr("seed: int")
    .Attr("shard_bits: int >= 0")
    .Attr("admission: list(float)")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("AfoTableSizes")
    .Input("tables: resource")
    .Attr("numbers: list(int) >= 1")
    .Output("keys: int64")
    .Output("bytes: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    });

constexpr std::size_t kOptimizerNumbers = 17;
constexpr float kMostKeys = 1e12f;  // of a counting Bloom filter

OptimizerOptions OptimizerOf(int rule, const std::vector<float>& numbers) {
  OptimizerOptions o;
  o.rule = static_cast<Rule>(rule);
  std::size_t i = 0;
  for (float* field : {&o.learning_rate, &o.initial_accumulator, &o.epsilon, &o.beta_1, &o.beta_2, &o.l1, &o.l2,
                       &o.l21, &o.momentum, &o.weight_decay, &o.decay_rate, &o.rho, &o.clip_value,
                       &o.clip_norm}) {
    *field = numbers[i++];
  }
  o.nesterov = numbers[i++] != 0;
  o.forgets_first = numbers[i++] != 0;
  o.decay_steps = static_cast<std::uint32_t>(numbers[i]);
  return o;
}

class AddTableOp : public OpKernel {
 public:
  explicit AddTableOp(OpKernelConstruction* context) : OpKernel(context) {
    int dim, rule, distribution, shard_bits;
    int64_t seed;
    std::vector<float> optimizer, initializer, admission;
    OP_REQUIRES_OK(context, context->GetAttr("number", &number_));
    OP_REQUIRES_OK(context, context->GetAttr("dim", &dim));
    OP_REQUIRES_OK(context, context->GetAttr("rule", &rule));
    OP_REQUIRES_OK(context, context->GetAttr("optimizer", &optimizer));
    OP_REQUIRES_OK(context, context->GetAttr("distribution", &distribution));
    OP_REQUIRES_OK(context, context->GetAttr("initializer", &initializer));
    OP_REQUIRES_OK(context, context->GetAttr("seed", &seed));
    OP_REQUIRES_OK(context, context->GetAttr("shard_bits", &shard_bits));
    OP_REQUIRES_OK(context, context->GetAttr("admission", &admission));
    OP_REQUIRES(context,
                dim <= kMaxDim && rule < kRules && distribution <= 3 && shard_bits <= kMaxShardBits &&
                    initializer.size() == 2 && optimizer.size() == kOptimizerNumbers && optimizer.back() >= 1 &&
                    admission.size() == 5 && admission[0] >= 1 && admission[0] <= kMaxFrequency &&
                    admission[1] > 0 && admission[1] <= 1 && admission[3] >= 0 && admission[3] <= kMostKeys &&
                    admission[4] > 0 && admission[4] < 1,
                absl::InvalidArgumentError("an option of the embedding table is out of its range"));
    options_.dim = dim;
    options_.optimizer = OptimizerOf(rule, optimizer);
    options_.initializer = {static_cast<Distribution>(distribution), initializer[0], initializer[1],
                            static_cast<std::uint64_t>(seed)};
    options_.shard_bits = shard_bits;
    options_.admission = {static_cast<std::uint32_t>(admission[0]), admission[1], admission[2],
                          static_cast<std::int64_t>(admission[3]), admission[4]};
  }

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<EmbeddingTables> tables;
    OP_REQUIRES_OK(context, tensorflow::LookupOrCreateResource<EmbeddingTables>(
                                context, tensorflow::HandleFromInput(context, 0), &tables,
                                [](EmbeddingTables** created) {
                                  *created = new EmbeddingTables();
                                  return absl::OkStatus();
                                }));
    OP_REQUIRES_OK(context, tables->Add(number_, options_));
  }

 private:
  int64_t number_;
  TableOptions options_;
};

class TableSizesOp : public OpKernel {
 public:
  explicit TableSizesOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
  }

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<EmbeddingTables> tables;
    OP_REQUIRES_OK(context,
                   tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), &tables));
    std::vector<Table*> found;
    OP_REQUIRES_OK(context, tables->Find(numbers_, &found));
    Tensor *keys = nullptr, *bytes = nullptr;
    const auto count = static_cast<int64_t>(found.size());
    OP_REQUIRES_OK(context, context->allocate_output(0, {count}, &keys));
    OP_REQUIRES_OK(context, context->allocate_output(1, {count}, &bytes));
    for (int64_t i = 0; i < count; ++i) {
      keys->vec<int64_t>()(i) = found[i]->size();
      bytes->vec<int64_t>()(i) = static_cast<int64_t>(found[i]->bytes());
    }
  }

 private:
  std::vector<int32_t> numbers_;
};

REGISTER_KERNEL_BUILDER(Name("AfoEmbeddingTables").Device(tensorflow::DEVICE_CPU),
                        tensorflow::ResourceHandleOp<EmbeddingTables>);
REGISTER_KERNEL_BUILDER(Name("AfoAddTable").Device(tensorflow::DEVICE_CPU), AddTableOp);
REGISTER_KERNEL_BUILDER(Name("AfoTableSizes").Device(tensorflow::DEVICE_CPU), TableSizesOp);

}  // namespace
}  // namespace afo
