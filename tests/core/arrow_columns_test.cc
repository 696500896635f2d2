#include "afo/core/arrow_columns.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/core/arrow_batch.h"
#include "tests/core/support.h"

namespace afo {
namespace testing {
void ReadBatch(const std::uint8_t* data, std::size_t size);  // fuzz_arrow_columns.cc
}
namespace {

using testing::BatchOf;
using testing::Bools;
using testing::FixedLists;
using testing::Lists;
using testing::Node;
using testing::Numbers;
using testing::Texts;
using testing::WithDictionary;

using Ids = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Words = std::vector<std::string_view>;

template <typename Number>
std::vector<Number> ValuesOf(const RequestTensor& tensor) {
  std::vector<Number> values(tensor.numbers.size() / sizeof(Number));
  if (!values.empty()) std::memcpy(values.data(), tensor.numbers.data(), tensor.numbers.size());
  return values;
}

template <typename Number>
ColumnFill FillOf(const std::vector<Number>& values, bool any_length = false) {
  const char* bytes = reinterpret_cast<const char*>(values.data());
  return {{bytes, bytes + values.size() * sizeof(Number)}, {}, any_length};
}

ArrowColumns Read(const Node& batch, const std::vector<ColumnInput>& inputs) {
  return ReadArrowColumns(batch->schema, batch->array, inputs);
}

// The tensor of one column that is the batch.
RequestTensor ReadOne(Node column, ColumnInput input) {
  const auto rows = static_cast<std::size_t>(column->array.length);
  const Node batch = BatchOf(rows, std::move(column));
  input.name = batch->children[0]->name;
  ArrowColumns read = Read(batch, {input});
  REQUIRE(read.wrong == "");
  REQUIRE(read.inputs.size() == 1);
  // What it refers to ends here.
  RequestTensor tensor = std::move(read.inputs[0]);
  tensor.decoded.assign(tensor.numbers.begin(), tensor.numbers.end());
  tensor.numbers = {tensor.decoded.data(), tensor.decoded.size()};
  return tensor;
}

std::string WrongOf(Node column, ColumnInput input) {
  const auto rows = static_cast<std::size_t>(std::max<std::int64_t>(column->array.length, 0));
  const Node batch = BatchOf(rows, std::move(column));
  input.name = "x";
  ArrowColumns read = Read(batch, {input});
  CHECK(read.inputs.empty());
  return read.wrong;
}

const ColumnInput kId{"", TensorType::kInt64, 1}, kFloat{"", TensorType::kFloat, 1}, kWord{"", TensorType::kString, 1},
    kIds{"", TensorType::kInt64, 2};

TEST_CASE("an arrow column of each type becomes the tensor that it can be") {
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::int8_t>("x", "c", {-1, 2}), kId)) == Ids{-1, 2});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::uint8_t>("x", "C", {255}), kId)) == Ids{255});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::int16_t>("x", "s", {-300}), kId)) == Ids{-300});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::uint16_t>("x", "S", {65535}), kId)) == Ids{65535});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::int32_t>("x", "i", {INT32_MIN}), kId)) == Ids{INT32_MIN});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::uint32_t>("x", "I", {UINT32_MAX}), kId)) == Ids{UINT32_MAX});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::int64_t>("x", "l", {INT64_MIN}), kId)) == Ids{INT64_MIN});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::uint64_t>("x", "L", {UINT64_MAX}), kId)) == Ids{-1});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Bools("x", {1, 0, 1}), kId)) == Ids{1, 0, 1});
  CHECK(ValuesOf<float>(ReadOne(Numbers<float>("x", "f", {0.1f, 2}), kFloat)) == Floats{0.1f, 2});
  CHECK(ValuesOf<float>(ReadOne(Numbers<double>("x", "g", {0.1}), kFloat)) == Floats{0.1f});
  CHECK(ValuesOf<float>(ReadOne(Numbers<std::int64_t>("x", "l", {(1 << 24) + 1}), kFloat)) == Floats{1 << 24});
  CHECK(ReadOne(Texts("x", "u", {"Ulm", ""}), kWord).strings.size() == 2);
  const ColumnInput small{"", TensorType::kInt32, {}}, flag{"", TensorType::kBool, {}};
  const RequestTensor flat = ReadOne(Numbers<std::uint32_t>("x", "I", {7}), small);
  CHECK(flat.dims == Ids{1});
  CHECK(ValuesOf<std::int32_t>(flat) == std::vector<std::int32_t>{7});
  CHECK(ReadOne(Bools("x", {0, 1}), flag).numbers == std::string_view("\0\1", 2));
}

TEST_CASE("numbers of the model's own type are not copied, and slices are where they begin") {
  Node ids = Numbers<std::int64_t>("x", "l", {9, 9, 1, 2, 3, 4});
  const char* const buffer = ids->buffers[1].get();
  ids->array.offset = 1;
  ids->array.length = 5;
  Node lists = Lists<std::int64_t>("y", {0, 2, 4, 6, 8}, Numbers<std::int64_t>("", "l", {0, 1, 2, 3, 4, 5, 6, 7, 8}));
  lists->children[0]->array.offset = 1;
  lists->children[0]->array.length = 8;
  Node words = Texts<std::int64_t>("z", "U", {"no", "no", "Ulm", "Bonn", "no"});
  const Node batch = BatchOf(2, std::move(ids), std::move(lists), std::move(words));
  batch->array.offset = 1;
  batch->children[2]->array.offset = 1;
  batch->children[2]->array.length = 4;
  const ArrowColumns read =
      Read(batch, {{"x", TensorType::kInt64, 1}, {"y", TensorType::kInt64, 2}, {"z", TensorType::kString, 1}});
  REQUIRE(read.wrong == "");
  CHECK(ValuesOf<std::int64_t>(read.inputs[0]) == Ids{1, 2});
  CHECK(read.inputs[0].numbers.data() == buffer + 16);
  CHECK(ValuesOf<std::int64_t>(read.inputs[1]) == Ids{3, 4, 5, 6});
  CHECK(read.inputs[1].numbers.data() == batch->children[1]->children[0]->buffers[1].get() + 24);
  CHECK(read.inputs[2].strings == Words{"Ulm", "Bonn"});
}

TEST_CASE("what is absent in arrow has the model's fill") {
  const ColumnFill ids = FillOf<std::int64_t>({7, 8}), lists = FillOf<std::int64_t>({7, 7, 7}, true);
  const ColumnFill missing = FillOf<float>({std::numeric_limits<float>::quiet_NaN()}), city{{}, {"Bern"}, false};
  CHECK(std::isnan(
      ValuesOf<float>(ReadOne(Numbers<float>("x", "f", {1}, {0}), {"", TensorType::kFloat, 1, &missing}))[0]));
  CHECK(ValuesOf<float>(ReadOne(Numbers<float>("x", "f", {1, 5}, {0, 1}), {"", TensorType::kFloat, 1, &missing}))[1] ==
        5);
  const Node words = BatchOf(3, Texts("x", "z", {"Ulm", "", ""}, {1, 0, 1}));
  CHECK(Read(words, {{"x", TensorType::kString, 1, &city}}).inputs[0].strings == Words{"Ulm", "Bern", ""});
  Node nothing = testing::NewNode("x", "n", 2, {});
  nothing->buffers.clear();
  nothing->Seal();
  CHECK(ValuesOf<std::int64_t>(ReadOne(std::move(nothing), {"", TensorType::kInt64, 2, &ids})) == Ids{7, 8, 7, 8});
  // Null, of fewer values, of none, of more; a null within a list is padding.
  const auto lists_of = [&] {
    return Lists<std::int32_t>("x", {0, 0, 2, 2, 6},
                               Numbers<std::int32_t>("", "i", {1, 2, 3, 4, 5, 6}, {1, 1, 1, 0, 1, 1}), {0, 1, 1, 1});
  };
  CHECK(ValuesOf<std::int64_t>(ReadOne(lists_of(), {"", TensorType::kInt64, 3, &lists})) ==
        Ids{7, 7, 7, 1, 2, 7, 7, 7, 7, 3, 7, 5});
  CHECK(ValuesOf<std::int64_t>(ReadOne(Numbers<std::int64_t>("x", "l", {4}), {"", TensorType::kInt64, 3, &lists})) ==
        Ids{4, 7, 7});
  const auto pairs = FixedLists("x", 2, 3, Numbers<std::int64_t>("", "l", {1, 2, 3, 4, 5, 6}), {1, 0, 1});
  CHECK(pairs->array.null_count == -1);
  CHECK(ValuesOf<std::int64_t>(
            ReadOne(FixedLists("x", 2, 3, Numbers<std::int64_t>("", "l", {1, 2, 3, 4, 5, 6}), {1, 0, 1}),
                    {"", TensorType::kInt64, 2, &ids})) == Ids{1, 2, 7, 8, 5, 6});
}

TEST_CASE("dictionaries are looked up, in lists too") {
  const auto cities = [] { return Texts("", "u", {"Ulm", "Bonn", ""}, {1, 1, 0}); };
  const ColumnFill fill{{}, {"none", "none"}, true};
  const Node flat = BatchOf(4, WithDictionary(Numbers<std::int8_t>("x", "c", {1, 0, 2, 0}, {1, 1, 1, 0}), cities()));
  CHECK(Read(flat, {{"x", TensorType::kString, 1, &fill}}).inputs[0].strings == Words{"Bonn", "Ulm", "none", "none"});
  const Node lists = BatchOf(
      2, Lists<std::int32_t>("x", {0, 1, 3}, WithDictionary(Numbers<std::uint64_t>("", "L", {1, 0, 1}), cities())));
  CHECK(Read(lists, {{"x", TensorType::kString, 2, &fill}}).inputs[0].strings == Words{"Bonn", "none", "Ulm", "Bonn"});
  for (const std::int64_t index : {std::int64_t{3}, std::int64_t{-1}, INT64_MAX}) {
    CHECK(WrongOf(WithDictionary(Numbers<std::int64_t>("x", "l", {index}), cities()), kWord) ==
          "column `x` has the index " + std::to_string(index) + " of a dictionary of 3");
  }
  CHECK(WrongOf(WithDictionary(Numbers<float>("x", "f", {0}), cities()), kWord) ==
        "column `x` has a dictionary with the Arrow format `f`");
  Node half = Numbers<std::int8_t>("x", "c", {0});
  const Node other = cities();
  half->array.dictionary = &other->array;
  CHECK(WrongOf(std::move(half), kWord) == "column `x` has a dictionary in its schema or in its array alone");
}

TEST_CASE("a column of another type or length is refused by its name") {
  CHECK(WrongOf(Numbers<float>("x", "f", {1}), kId) ==
        "column `x` holds float32; the model takes DT_INT64: integers or booleans");
  CHECK(WrongOf(Texts("x", "u", {"1"}), kFloat) ==
        "column `x` holds strings; the model takes DT_FLOAT: float32, float64, integers or booleans");
  CHECK(WrongOf(Numbers<std::int64_t>("x", "l", {1}), {"", TensorType::kInt32, 1}) ==
        "column `x` holds int64; the model takes DT_INT32: integers of up to 32 bits or booleans");
  CHECK(WrongOf(Numbers<std::uint32_t>("x", "I", {UINT32_MAX}), {"", TensorType::kInt32, 1}) ==
        "column `x` has the value 4294967295, which no int32 is");
  CHECK(WrongOf(Numbers<std::int64_t>("x", "l", {1}), kIds) == "column `x` has 1 value in row 0 where 2 are read");
  CHECK(WrongOf(Lists<std::int32_t>("x", {0, 1, 1}, Numbers<std::int64_t>("", "l", {1})), kId) ==
        "column `x` has 0 values in row 1 where 1 is read");
  CHECK(
      WrongOf(Numbers<std::int64_t>("x", "l", {1, 2}, {1, 0}), kId).starts_with("column `x` has a null in row 1, and"));
  const Node within = BatchOf(1, Lists<std::int32_t>("x", {0, 2}, Numbers<std::int64_t>("", "l", {1, 2}, {1, 0})));
  CHECK(Read(within, {{"x", TensorType::kInt64, 2}}).wrong.starts_with("column `x` has a null in row 0, and"));
  for (const char* format : {"e", "vu", "w:4", "tdD", "d:19,10", "+vl", "+w:-1", "+w:", "+w:99999999999", "", "ll"}) {
    CHECK(WrongOf(Numbers<std::int64_t>("x", format, {1}), kId)
              .starts_with("column `x` has the Arrow format `" + std::string(format) + "`; allowed are "));
  }
  Node nested = Lists<std::int32_t>("x", {0, 1}, Lists<std::int32_t>("", {0, 1}, Numbers<std::int64_t>("", "l", {1})));
  CHECK(WrongOf(std::move(nested), kId).starts_with("column `x` has the Arrow format `+l`; allowed are "));
}

TEST_CASE("an arrow batch has a column for each input") {
  const auto ids = [](const char* name) { return Numbers<std::int64_t>(name, "l", {1}); };
  const std::vector<ColumnInput> inputs{{"x", TensorType::kInt64, 1}, {"y", TensorType::kInt64, 1}};
  CHECK(Read(BatchOf(1, ids("x")), inputs).wrong == "column `y` is missing");
  CHECK(Read(BatchOf(1, ids("x"), ids("x")), inputs).wrong == "column `x` is in the batch twice");
  CHECK(Read(BatchOf(1, ids("x"), ids("z"), ids("y")), inputs).wrong ==
        "column `z` is no input of the signature, whose inputs are x, y");
  CHECK(Read(BatchOf(2, ids("x"), ids("y")), inputs).wrong ==
        "column `x` has 1 rows where the batch has 2 from row 0 on");
  CHECK(Read(ids("x"), inputs).wrong == "the batch has the Arrow format `l`; a batch is a struct array (`+s`)");
  const Node empty = BatchOf(0, Numbers<std::int64_t>("y", "l", {}), Numbers<std::int64_t>("x", "l", {}));
  const ArrowColumns read = Read(empty, inputs);
  CHECK(read.wrong == "");
  CHECK(read.inputs[0].name == "y");
  CHECK(read.inputs[0].dims == Ids{0, 1});
}

// What is wrong with a batch of a column of ids, a list of two and a string, once `change` changed one of them.
template <typename Change>
std::string WrongAfter(const Change& change) {
  Node batch = BatchOf(2, Numbers<std::int64_t>("x", "l", {1, 2}),
                       Lists<std::int32_t>("y", {0, 2, 4}, Numbers<std::int64_t>("", "l", {1, 2, 3, 4})),
                       Texts("z", "u", {"Ulm", "Bonn"}));
  change(batch.get());
  return Read(batch, {{"x", TensorType::kInt64, 1}, {"y", TensorType::kInt64, 2}, {"z", TensorType::kString, 1}}).wrong;
}

void SetOffset(testing::ArrowNode* node, int place, std::int32_t offset) {
  std::memcpy(node->buffers[1].get() + place * 4, &offset, sizeof(offset));
}

TEST_CASE("lengths and offsets of an arrow batch are not believed") {
  using testing::ArrowNode;
  CHECK(WrongAfter([](ArrowNode*) {}) == "");
  for (const std::int64_t number : {std::int64_t{-1}, INT64_MIN, INT64_MAX}) {
    for (const int child : {0, 1, 2}) {
      const std::string name = "column `" + std::string(1, "xyz"[child]) + "` has the length ";
      CHECK(WrongAfter([&](ArrowNode* b) { b->children[child]->array.length = number; }).starts_with(name));
      CHECK(WrongAfter([&](ArrowNode* b) { b->children[child]->array.offset = number; }).starts_with(name));
    }
    CHECK(WrongAfter([&](ArrowNode* b) { b->array.length = number; }).starts_with("the batch has the length "));
    CHECK(WrongAfter([&](ArrowNode* b) { b->array.offset = number; }).starts_with("the batch has the length "));
  }
  CHECK(WrongAfter([](ArrowNode* b) { b->array.length = 65537; }) ==
        "the batch has 65537 rows; a request may have 65536 at most");
  CHECK(WrongAfter([](ArrowNode* b) { b->array.offset = 1; }) ==
        "column `x` has 2 rows where the batch has 2 from row 1 on");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[0]->array.null_count = 3; }) ==
        "column `x` has the null_count 3 where its length is 2");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[0]->array.null_count = 1; }) ==
        "column `x` has 1 nulls and no validity buffer");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[0]->array.n_buffers = 1; }) ==
        "column `x` has 1 buffers where its format has 2");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[0]->array.buffers = nullptr; }) == "column `x` has no buffers");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[0]->pointers[1] = nullptr; }) ==
        "column `x` has no buffer of values");
  for (const int child : {1, 2}) {
    const std::string name = "column `" + std::string(1, "xyz"[child]) + "` has ";
    CHECK(WrongAfter([&](ArrowNode* b) { b->children[child]->pointers[1] = nullptr; }) ==
          name + "no buffer of offsets");
  }
  CHECK(WrongAfter([](ArrowNode* b) { b->children[2]->pointers[2] = nullptr; }) == "column `z` has no buffer of bytes");
  CHECK(WrongAfter([](ArrowNode* b) { SetOffset(b->children[1].get(), 0, -2); }) ==
        "column `y` has in row 0 the values -2 to 2 of 4");
  CHECK(WrongAfter([](ArrowNode* b) { SetOffset(b->children[1].get(), 2, 5); }) ==
        "column `y` has in row 1 the values 2 to 5 of 4");
  CHECK(WrongAfter([](ArrowNode* b) { SetOffset(b->children[1].get(), 1, 5); }) ==
        "column `y` has in row 0 the values 0 to 5 of 4");
  CHECK(WrongAfter([](ArrowNode* b) { SetOffset(b->children[2].get(), 1, 9); }) ==
        "column `z` has a string from byte 9 to byte 7");
  CHECK(WrongAfter([](ArrowNode* b) { SetOffset(b->children[2].get(), 0, -1); }) ==
        "column `z` has a string from byte -1 to byte 3");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[1]->children[0]->array.length = 3; }) ==
        "column `y` has in row 1 the values 2 to 4 of 3");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[1]->array.n_children = 0; }) ==
        "column `y` has 1 children by its schema and 0 by its array where its format has 1");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[1]->arrays[0] = nullptr; }) == "column `y` has a child that is null");
  CHECK(WrongAfter([](ArrowNode* b) { b->array.n_children = 2; }).starts_with("the batch has 3 columns by its schema"));
  CHECK(WrongAfter([](ArrowNode* b) { b->schemas[1] = nullptr; }) == "column 1 of the batch is null, or has no name");
  CHECK(WrongAfter([](ArrowNode* b) { b->children[1]->schema.name = nullptr; }) ==
        "column 1 of the batch is null, or has no name");
  CHECK(WrongAfter([](ArrowNode* b) {
          b->children[1]->schema.format = nullptr;
        }).starts_with("column `y` has the Arrow format ``"));
  CHECK(WrongAfter([](ArrowNode* b) { b->children[1]->array.release = nullptr; }) ==
        "column `y` was released, or moved elsewhere");
  const char second = 1;
  CHECK(WrongAfter([&](ArrowNode* b) {
          b->pointers[0] = &second;
          b->array.null_count = -1;
        }) == "the batch is null in row 1");
}

TEST_CASE("a few lists of arrow do not become a large tensor") {
  constexpr std::int64_t kWidth = 100'000;
  const ColumnFill fill = FillOf(std::vector<std::int64_t>(kWidth, 1), true);
  const std::size_t rows = kMostBatchBytes / 8 / kWidth + 1;
  Node lists = Lists<std::int32_t>("x", std::vector<std::int32_t>(rows + 1, 0), Numbers<std::int64_t>("", "l", {}));
  CHECK(WrongOf(std::move(lists), {"", TensorType::kInt64, kWidth, &fill}) ==
        "column `x` makes the batch larger than 2 GiB: ask for fewer rows at once");
}

TEST_CASE("random arrow batches are refused, or read within their buffers") {
  testing::Random random(1);
  std::vector<std::uint8_t> bytes;
  for (int input = 0; input < 20000; ++input) {
    bytes.resize(random.Below(120));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.Bits());
    testing::ReadBatch(bytes.data(), bytes.size());  // aborts
  }
}

}  // namespace
}  // namespace afo
