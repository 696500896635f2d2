// Creating embedding tables, and what they hold.

#include "afo/ops/call_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

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

void ReadTable(Attributes* attributes) {
  attributes->Int("number").Int("dim").Int("slots").Int("seed").Int("shard_bits").Int("min_count");
  attributes->Int("max_element_size").Type("value_dtype").Count("options");
  attributes->Float("probability").Float("default_value").Float("false_positive_probability");
  attributes->Floats("options").Floats("initializer");
  attributes->Text("rule").Text("distribution").Texts("option_names").Texts("initializer_names");
}

using AddTableOp = CallOpOf<Function::kAddTable, ReadTable>;
using TableSizesOp = CallOpOf<Function::kTableSizes, Numbers>;

REGISTER_KERNEL_BUILDER(Name("AfoEmbeddingTables").Device(tensorflow::DEVICE_CPU),
                        tensorflow::ResourceHandleOp<EmbeddingTables>);
REGISTER_KERNEL_BUILDER(Name("AfoAddTable").Device(tensorflow::DEVICE_CPU), AddTableOp);
REGISTER_KERNEL_BUILDER(Name("AfoTableSizes").Device(tensorflow::DEVICE_CPU), TableSizesOp);

}  // namespace
}  // namespace afo
