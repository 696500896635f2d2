// Creating embedding tables, and what they hold.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/ops/optimizer_attributes.h"
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

REGISTER_OP("AfoEmbeddingTables")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Output("tables: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

REGISTER_OP("AfoAddTable")
    .Input("tables: resource")
    .Attr("number: int >= 0")
    .Attr("dim: int >= 1")
    .Attr("rule: string")
    .Attr("slots: int >= 0")
    .Attr("option_names: list(string)")
    .Attr("options: list(float)")
    .Attr("distribution: string")
    .Attr("initializer_names: list(string)")
    .Attr("initializer: list(float)")
    .Attr("seed: int")
    .Attr("shard_bits: int >= 0")
    .Attr("min_count: int >= 1")
    .Attr("probability: float")
    .Attr("default_value: float")
    .Attr("max_element_size: int >= 0")
    .Attr("false_positive_probability: float")
    .Attr("value_dtype: {float, bfloat16} = DT_FLOAT")
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

constexpr absl::string_view kWhose = "the embedding table";
constexpr int64_t kMostKeys = 1000000000000;  // of a counting Bloom filter

class AddTableOp : public OpKernel {
 public:
  explicit AddTableOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("number", &number_));
    OP_REQUIRES_OK(context, context->GetAttr("dim", &options_.dim));
    OP_REQUIRES_OK(context, context->GetAttr("shard_bits", &options_.shard_bits));
    OP_REQUIRES(context, options_.dim <= kMaxDim && options_.shard_bits <= kMaxShardBits, OutOfRange("width or shards"));
    ReadWeights(context);
    OP_REQUIRES_VALUE(options_.optimizer, context, OptimizerOf(context, kWhose));
    ReadInitializer(context);
    if (context->status().ok()) ReadAdmission(context);
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const auto tables, context, CreatedTables(context));
    OP_REQUIRES_OK(context, tables->Add(number_, options_));
  }

 private:
  static absl::Status OutOfRange(absl::string_view what) {
    return OptionOutOfRange(kWhose, what);
  }

  void ReadWeights(OpKernelConstruction* context) {
    tensorflow::DataType type;
    OP_REQUIRES_OK(context, context->GetAttr("value_dtype", &type));
    options_.weights = type == tensorflow::DT_BFLOAT16 ? WeightType::kBfloat16 : WeightType::kFloat32;
  }

  void ReadInitializer(OpKernelConstruction* context) {
    std::string distribution;
    int64_t seed;
    std::vector<std::string> names;
    std::vector<float> values;
    OP_REQUIRES_OK(context, context->GetAttr("distribution", &distribution));
    OP_REQUIRES_OK(context, context->GetAttr("initializer_names", &names));
    OP_REQUIRES_OK(context, context->GetAttr("initializer", &values));
    OP_REQUIRES_OK(context, context->GetAttr("seed", &seed));
    const std::optional<Distribution> found = DistributionOf(distribution);
    OP_REQUIRES(context, found.has_value(), OutOfRange(absl::StrCat("distribution ", distribution)));
    OP_REQUIRES(context, names.size() == values.size(), OutOfRange("a value for each option of the initializer"));
    options_.initializer.distribution = *found;
    options_.initializer.seed = static_cast<std::uint64_t>(seed);
    for (std::size_t i = 0; i < names.size(); ++i) {
      OP_REQUIRES(context, options_.initializer.Set(names[i], values[i]), OutOfRange(names[i]));
    }
  }

  void ReadAdmission(OpKernelConstruction* context) {
    int64_t min_count, max_element_size;
    float probability, default_value, chance;
    OP_REQUIRES_OK(context, context->GetAttr("min_count", &min_count));
    OP_REQUIRES_OK(context, context->GetAttr("probability", &probability));
    OP_REQUIRES_OK(context, context->GetAttr("default_value", &default_value));
    OP_REQUIRES_OK(context, context->GetAttr("max_element_size", &max_element_size));
    OP_REQUIRES_OK(context, context->GetAttr("false_positive_probability", &chance));
    OP_REQUIRES(context, min_count <= kMaxFrequency, OutOfRange("min_count"));
    OP_REQUIRES(context, probability > 0 && probability <= 1, OutOfRange("probability"));
    OP_REQUIRES(context, max_element_size <= kMostKeys, OutOfRange("max_element_size"));
    OP_REQUIRES(context, chance > 0 && chance < 1, OutOfRange("false_positive_probability"));
    options_.admission = {.min_count = static_cast<std::uint32_t>(min_count),
                          .probability = probability,
                          .default_value = default_value,
                          .max_element_size = max_element_size,
                          .false_positive_probability = chance};
  }

  int64_t number_;
  TableOptions options_;
};

class TableSizesOp : public OpKernel {
 public:
  explicit TableSizesOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const auto tables, context, TablesOf(context));
    OP_REQUIRES_VALUE(const std::vector<Table*> found, context, tables->Find(numbers_));
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
