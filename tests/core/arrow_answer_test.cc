#include "afo/core/arrow_answer.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "afo/core/arrow_columns.h"

namespace afo {
namespace {

template <typename Number>
std::shared_ptr<const void> Kept(std::vector<Number> numbers) {
  const auto kept = std::make_shared<const std::vector<Number>>(std::move(numbers));
  return {kept, kept->data()};
}

// An answer, which is given back at the end.
struct Answer {
  ArrowSchema schema{};
  ArrowArray array{};

  Answer(std::int64_t rows, const std::vector<AnswerColumn>& columns) {
    WriteArrowAnswer(rows, columns, &schema, &array);
  }
  ~Answer() {
    if (schema.release != nullptr) schema.release(&schema);
    if (array.release != nullptr) array.release(&array);
    CHECK(!schema.release);
    CHECK(!array.release);
  }
};

TEST_CASE("an arrow answer is a batch that a reader of arrow takes") {
  const Answer answer(2, {{"scores", TensorType::kFloat, {2}, Kept<float>({0.25f, 0.75f})},
                          {"pairs", TensorType::kInt64, {2, 2}, Kept<std::int64_t>({1, 2, 3, 4})},
                          {"flags", TensorType::kBool, {2, 5}, Kept<char>({1, 0, 0, 0, 0, 0, 0, 0, 0, 1})},
                          {"small", TensorType::kInt32, {2}, Kept<std::int32_t>({-7, 7})}});
  const std::vector<ColumnInput> inputs{{"scores", TensorType::kFloat, {}},
                                        {"pairs", TensorType::kInt64, 2},
                                        {"flags", TensorType::kBool, 5},
                                        {"small", TensorType::kInt32, {}}};
  const ArrowColumns read = ReadArrowColumns(answer.schema, answer.array, inputs);
  REQUIRE(read.wrong == "");
  const float scores[] = {0.25f, 0.75f};
  const std::int64_t pairs[] = {1, 2, 3, 4};
  const std::int32_t small[] = {-7, 7};
  const auto bytes = [](const void* of, std::size_t size) {
    return std::string_view(static_cast<const char*>(of), size);
  };
  CHECK(read.inputs[0].numbers == bytes(scores, sizeof(scores)));
  CHECK(read.inputs[1].numbers == bytes(pairs, sizeof(pairs)));
  CHECK(read.inputs[2].numbers == std::string_view("\1\0\0\0\0\0\0\0\0\1", 10));
  CHECK(read.inputs[3].numbers == bytes(small, sizeof(small)));
}

TEST_CASE("more dimensions of an arrow answer are lists of lists") {
  const Answer answer(1, {{"cube", TensorType::kFloat, {1, 2, 3}, Kept<float>({1, 2, 3, 4, 5, 6})}});
  const ArrowSchema& cube = *answer.schema.children[0];
  CHECK(std::string(cube.format) == "+w:2");
  CHECK(std::string(cube.name) == "cube");
  CHECK(std::string(cube.children[0]->format) == "+w:3");
  const ArrowArray& numbers = *answer.array.children[0]->children[0]->children[0];
  CHECK(numbers.length == 6);
  CHECK(static_cast<const float*>(numbers.buffers[1])[5] == 6);
}

TEST_CASE("a column that was moved out of an arrow answer outlives it") {
  ArrowArray moved;
  {
    Answer answer(
        2, {{"a", TensorType::kFloat, {2}, Kept<float>({1, 2})}, {"b", TensorType::kFloat, {2}, Kept<float>({3, 4})}});
    moved = *answer.array.children[1];
    answer.array.children[1]->release = nullptr;
  }
  CHECK(static_cast<const float*>(moved.buffers[1])[1] == 4);
  moved.release(&moved);
}

}  // namespace
}  // namespace afo
