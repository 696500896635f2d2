#include "afo/core/arrow_columns.h"

#include <algorithm>

#include "afo/core/arrow_array.h"
#include "afo/core/arrow_values.h"

namespace afo {
namespace {

std::string OfColumn(std::string_view name, const std::string& wrong) {
  return "column " + QuotedText(std::string(name).c_str()) + " " + wrong;
}

// A batch while it is read.
struct Batch {
  const ArrowSchema& schema;
  const ArrowArray& array;
  std::int64_t bytes_left = kMostBatchBytes;
};

std::string ReadColumn(std::int64_t number, const ColumnInput& input, Batch* batch, RequestTensor* tensor) {
  const std::int64_t rows = batch->array.length;
  ArrowColumn column;
  if (std::string wrong =
          column.Open(*batch->schema.children[number], *batch->array.children[number], batch->array.offset, rows);
      !wrong.empty()) {
    return wrong;
  }
  const std::int64_t size = input.type == TensorType::kString ? 16 : static_cast<std::int64_t>(SizeOf(input.type));
  std::int64_t bytes;
  if (__builtin_mul_overflow(rows * size, input.width.value_or(1), &bytes) || bytes > batch->bytes_left) {
    return "makes the batch larger than 2 GiB: ask for fewer rows at once";
  }
  batch->bytes_left -= bytes;
  tensor->name = input.name;
  tensor->type = input.type;
  tensor->dims = {rows};
  if (input.width) tensor->dims.push_back(*input.width);
  return ReadArrowValues(column, input, tensor);
}

std::string CheckBatch(const Batch& batch) {
  const auto& [schema, array, bytes_left] = batch;
  if (schema.format == nullptr || std::string_view(schema.format) != "+s") {
    return "the batch has the Arrow format " + QuotedText(schema.format) + "; a batch is a struct array (`+s`)";
  }
  if (std::string wrong = CheckArrowArray(array, 1); !wrong.empty()) return "the batch " + wrong;
  if (array.length > kMostRows) {
    return "the batch has " + std::to_string(array.length) + " rows; a request may have " + std::to_string(kMostRows) +
           " at most";
  }
  if (schema.n_children != array.n_children || array.n_children < 0 ||
      array.n_children > static_cast<std::int64_t>(kMostInputs)) {
    return "the batch has " + std::to_string(schema.n_children) + " columns by its schema and " +
           std::to_string(array.n_children) + " by its array; allowed: the same number, " +
           std::to_string(kMostInputs) + " at most";
  }
  const auto* bits = static_cast<const char*>(array.buffers[0]);
  for (std::int64_t row = 0; bits != nullptr && array.null_count != 0 && row < array.length; ++row) {
    const std::int64_t bit = array.offset + row;
    if ((bits[bit >> 3] >> (bit & 7) & 1) == 0) return "the batch is null in row " + std::to_string(row);
  }
  return "";
}

// The name of a column; "" and what is wrong where it can have none.
std::string CheckColumn(const Batch& batch, std::int64_t number, std::string_view* name) {
  const ArrowSchema* const schema = batch.schema.children == nullptr ? nullptr : batch.schema.children[number];
  const ArrowArray* const array = batch.array.children == nullptr ? nullptr : batch.array.children[number];
  if (schema == nullptr || array == nullptr || schema->name == nullptr) {
    return "column " + std::to_string(number) + " of the batch is null, or has no name";
  }
  *name = schema->name;
  const bool is_there = schema->release != nullptr && array->release != nullptr;
  return is_there ? "" : OfColumn(*name, "was released, or moved elsewhere");
}

std::string NoInput(std::string_view name, std::span<const ColumnInput> inputs) {
  std::string names;
  for (const ColumnInput& input : inputs) names.append(names.empty() ? "" : ", ").append(input.name);
  return OfColumn(name, "is no input of the signature, whose inputs are " + names);
}

bool HasTensor(const std::vector<RequestTensor>& tensors, std::string_view name) {
  return std::any_of(tensors.begin(), tensors.end(), [name](const RequestTensor& each) { return each.name == name; });
}

std::string ReadColumns(Batch* batch, std::span<const ColumnInput> inputs, std::vector<RequestTensor>* tensors) {
  if (std::string wrong = CheckBatch(*batch); !wrong.empty()) return wrong;
  for (std::int64_t number = 0; number < batch->array.n_children; ++number) {
    std::string_view name;
    if (std::string wrong = CheckColumn(*batch, number, &name); !wrong.empty()) return wrong;
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [name](const ColumnInput& each) { return each.name == name; });
    if (input == inputs.end()) return NoInput(name, inputs);
    if (HasTensor(*tensors, name)) return OfColumn(name, "is in the batch twice");
    if (std::string wrong = ReadColumn(number, *input, batch, &tensors->emplace_back()); !wrong.empty()) {
      return OfColumn(name, wrong);
    }
  }
  for (const ColumnInput& input : inputs) {
    if (!HasTensor(*tensors, input.name)) return OfColumn(input.name, "is missing");
  }
  return "";
}

}  // namespace

ArrowColumns ReadArrowColumns(const ArrowSchema& schema, const ArrowArray& batch, std::span<const ColumnInput> inputs) {
  ArrowColumns read;
  Batch reading{schema, batch};
  read.wrong = ReadColumns(&reading, inputs, &read.inputs);
  if (!read.wrong.empty()) read.inputs.clear();
  return read;
}

}  // namespace afo
