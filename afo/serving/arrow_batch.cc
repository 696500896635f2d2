#include "afo/serving/arrow_batch.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/core/arrow_answer.h"
#include "afo/core/arrow_columns.h"

namespace afo {
namespace {

using tensorflow::Tensor;

// An input as a column can have it: a value or a list of a known number of them in each row.
absl::StatusOr<ColumnInput> InputOf(const ServedSignature& signature, const ServedSignature::Parameter& input,
                                    const ServedFills& fills) {
  ColumnInput column{input.name, static_cast<TensorType>(input.type), {}, nullptr};
  const int rank = input.shape.dims();
  if (rank == 2) column.width = input.shape.dim_size(1);
  if (rank < 1 || rank > 2 || column.width.value_or(0) < 0) {
    return absl::InvalidArgumentError(absl::StrCat("signature ", signature.name(), " takes no columns: its input `",
                                                   input.name, "` has the shape ", input.shape.DebugString(),
                                                   ", and a column is [?] or [?,n]"));
  }
  const auto fill = fills.find(input.name);
  if (signature.name() == kPredict && fill != fills.end()) column.fill = &fill->second;
  return column;
}

absl::StatusOr<std::vector<ColumnInput>> InputsOf(const ServedSignature& signature, const ServedFills& fills) {
  std::vector<ColumnInput> inputs;
  for (const ServedSignature::Parameter& each : signature.inputs()) {
    absl::StatusOr<ColumnInput> input = InputOf(signature, each, fills);
    if (!input.ok()) return input.status();
    inputs.push_back(*std::move(input));
  }
  return inputs;
}

absl::StatusOr<std::vector<AnswerColumn>> ColumnsOf(const ServedSignature& signature, std::vector<Tensor> outputs,
                                                    std::int64_t rows) {
  std::vector<AnswerColumn> columns;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = signature.outputs()[i].name;
    if (outputs[i].dims() == 0 || outputs[i].dim_size(0) != rows) {
      return absl::InternalError(absl::StrCat("the model's output `", name, "` has the shape ",
                                              outputs[i].shape().DebugString(), " for a batch of ", rows, " rows"));
    }
    const auto dims = outputs[i].shape().dim_sizes();
    const auto tensor = std::make_shared<const Tensor>(std::move(outputs[i]));
    columns.push_back({name,
                       static_cast<TensorType>(tensor->dtype()),
                       {dims.begin(), dims.end()},
                       std::shared_ptr<const void>(tensor, tensor->tensor_data().data())});
  }
  return columns;
}

}  // namespace

absl::Status AnswerArrowBatch(const ServedModel& model, const char* signature, const ArrowSchema& schema,
                              const ArrowArray& batch, ArrowSchema* answer_schema, ArrowArray* answer) {
  const absl::StatusOr<const ServedSignature*> asked = model.Find(signature == nullptr ? kPredict : signature);
  if (!asked.ok()) return asked.status();
  const absl::StatusOr<std::vector<ColumnInput>> inputs = InputsOf(**asked, model.fills());
  if (!inputs.ok()) return inputs.status();
  const ArrowColumns columns = ReadArrowColumns(schema, batch, *inputs);
  if (!columns.wrong.empty()) return absl::InvalidArgumentError(columns.wrong);
  absl::StatusOr<std::vector<Tensor>> outputs = (*asked)->Predict(columns.inputs);
  if (!outputs.ok()) return outputs.status();
  const absl::StatusOr<std::vector<AnswerColumn>> answered = ColumnsOf(**asked, *std::move(outputs), batch.length);
  if (!answered.ok()) return answered.status();
  WriteArrowAnswer(batch.length, *answered, answer_schema, answer);
  return absl::OkStatus();
}

}  // namespace afo
