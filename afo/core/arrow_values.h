// The values of a column of Arrow as a tensor.
//
//   input        column
//   int64        integers of any width, booleans; uint64 is its bits
//   int32        integers of up to 32 bits that it holds, booleans
//   float        float32, float64, integers, booleans: rounded to the nearest
//   bool         booleans
//   string       strings, binaries
//
// So a column means what it means in a Parquet file that a model is trained with. A row is a value or a list of values,
// any of them by a dictionary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afo/core/arrow_array.h"
#include "afo/core/predict_request.h"

namespace afo {

// What stands for absent values of an input, as many as a row has.
struct ColumnFill {
  std::vector<char> numbers;
  std::vector<std::string> strings;
  // A row may have any number of values: cut off, and filled up. Else it has all of them or is null.
  bool any_length = false;
};

struct ColumnInput {
  std::string_view name;
  TensorType type = TensorType::kFloat;
  // Values of a row; none: the tensor has one dimension.
  std::optional<std::int64_t> width;
  // Null: nobody knows it, so nothing may be absent.
  const ColumnFill* fill = nullptr;
};

// Fills `tensor`, whose shape is said: it refers to the column's buffers, and to the fill of `input`. Returns what is
// wrong, as the end of a sentence about the column; "": nothing.
[[nodiscard]] std::string ReadArrowValues(const ArrowColumn& column, const ColumnInput& input, RequestTensor* tensor);

}  // namespace afo
