// Outputs of a model as a struct array of Arrow's C data interface: a column for each output, [rows] of numbers as they
// are, [rows, n] and more as fixed-size lists. None of them is null.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "afo/core/arrow_abi.h"
#include "afo/core/predict_request.h"

namespace afo {

struct AnswerColumn {
  std::string name;
  TensorType type = TensorType::kFloat;  // of numbers
  std::vector<std::int64_t> dims;        // at least one
  // Of that many numbers, kept until the array is released. Booleans, which Arrow packs, are copied.
  std::shared_ptr<const void> numbers;
};

// Writes both structs, which belong to whoever has them then: each is given back by its `release`. Every column has
// `rows` of them as its first dimension.
void WriteArrowAnswer(std::int64_t rows, const std::vector<AnswerColumn>& columns, ArrowSchema* schema,
                      ArrowArray* answer);

}  // namespace afo
