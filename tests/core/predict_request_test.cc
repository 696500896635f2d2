#include "afo/core/predict_request.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "afo/core/joined_requests.h"
#include "afo/core/predict_response.h"
#include "example_writer.h"

namespace afo {
namespace testing {
void ReadRequest(const std::uint8_t* data, std::size_t size);  // fuzz_predict_request.cc
}  // namespace testing
namespace {

using testing::Sized;
using testing::Varint;

std::string Number(std::uint32_t field, std::uint64_t value) { return Varint(field << 3) + Varint(value); }

std::string Shape(const std::vector<std::int64_t>& dims) {
  std::string body;
  for (const std::int64_t dim : dims) body += Sized(2, Number(1, static_cast<std::uint64_t>(dim)));
  return Sized(2, body);
}

std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string Input(const std::string& name, const std::string& tensor) {
  return Sized(2, Sized(1, name) + Sized(2, tensor));
}

std::string Floats(const std::vector<std::int64_t>& dims, const std::string& values) {
  return Number(1, 1) + Shape(dims) + values;
}

std::string WrongOf(const std::string& bytes) { return ParsePredictRequest(bytes).wrong; }

std::vector<float> FloatsOf(const RequestTensor& tensor) {
  std::vector<float> values(tensor.numbers.size() / sizeof(float));
  std::memcpy(values.data(), tensor.numbers.data(), tensor.numbers.size());
  return values;
}

const std::string kSpec = Sized(1, Sized(1, "ctr") + Sized(2, Number(1, 7)) + Sized(3, "predict"));
const std::string kTexts = Input("examples", Number(1, 7) + Shape({2}) + Sized(8, "one") + Sized(8, ""));

TEST_CASE("a request is read in every form that its tensors may have") {
  const std::string bytes = kSpec + kTexts + Input("content", Floats({3}, Sized(4, Bytes({1, 2, 3})))) +
                            Input("packed", Floats({1, 2}, Sized(5, Bytes({4, 5})))) +
                            Input("one", Floats({2}, "\x2d" + Bytes({6}) + "\x2d" + Bytes({7}))) +
                            Input("repeated", Floats({3}, Sized(5, Bytes({8, 9})))) + Input("none", Floats({2}, "")) +
                            Sized(3, "probabilities") + Sized(9, "unknown");
  const ParsedPredictRequest parsed = ParsePredictRequest(bytes);
  REQUIRE(parsed.wrong == "");
  const PredictRequest& request = parsed.request;
  CHECK(request.model == "ctr");
  CHECK(request.signature == "predict");
  CHECK(request.version == 7);
  CHECK(request.output_filter == std::vector<std::string_view>{"probabilities"});
  REQUIRE(request.inputs.size() == 6);
  CHECK(request.inputs[0].strings == std::vector<std::string_view>{"one", ""});
  CHECK(FloatsOf(request.inputs[1]) == std::vector<float>{1, 2, 3});
  CHECK(request.inputs[2].dims == std::vector<std::int64_t>{1, 2});
  CHECK(FloatsOf(request.inputs[2]) == std::vector<float>{4, 5});
  CHECK(FloatsOf(request.inputs[3]) == std::vector<float>{6, 7});
  CHECK(FloatsOf(request.inputs[4]) == std::vector<float>{8, 9, 9});
  CHECK(FloatsOf(request.inputs[5]) == std::vector<float>{0, 0});
}

TEST_CASE("integers are read packed and one by one, negative ones too") {
  const auto minus = static_cast<std::uint64_t>(-2);
  const ParsedPredictRequest parsed =
      ParsePredictRequest(Input("packed", Number(1, 9) + Shape({2}) + Sized(10, Varint(5) + Varint(minus))) +
                          Input("one", Number(1, 3) + Shape({1}) + Number(7, minus)) +
                          Input("flag", Number(1, 10) + Shape({}) + Number(11, 1)));
  REQUIRE(parsed.wrong == "");
  std::int64_t wide[2];
  std::int32_t narrow;
  std::memcpy(wide, parsed.request.inputs[0].numbers.data(), sizeof(wide));
  std::memcpy(&narrow, parsed.request.inputs[1].numbers.data(), sizeof(narrow));
  CHECK(wide[0] == 5);
  CHECK(wide[1] == -2);
  CHECK(narrow == -2);
  CHECK(parsed.request.inputs[2].numbers == std::string_view("\x01"));
}

TEST_CASE("what does not fit is refused in words") {
  CHECK(WrongOf("\x12\x05x") == "is cut off");
  CHECK(WrongOf("\x0f") == "is no protobuf message");
  CHECK(WrongOf(kTexts + kTexts) == "has the input `examples` twice");
  CHECK(WrongOf(Input("a", Shape({1}))) == "has an input `a` that has no data type");
  CHECK(WrongOf(Input("a", Number(1, 2) + Shape({1}))) ==
        "has an input `a` that has the data type 2; allowed are DT_FLOAT, DT_INT32, DT_STRING, DT_INT64 and DT_BOOL");
  CHECK(WrongOf(Input("a", Floats({3}, Sized(4, Bytes({1}))))) ==
        "has an input `a` that has 1 values where its shape has 3");
  CHECK(WrongOf(Input("a", Floats({1}, Sized(5, Bytes({1, 2}))))) ==
        "has an input `a` that has 2 values where its shape has 1");
  CHECK(WrongOf(Input("a", Floats({1}, Sized(5, "xyz")))) ==
        "has an input `a` that has a value that is none of its type");
  for (const std::vector<std::int64_t>& dims :
       {std::vector<std::int64_t>{-1}, {INT64_MAX, 0}, {1 << 20, 1 << 20, 1 << 20, 1 << 20}}) {
    CHECK(WrongOf(Input("a", Floats(dims, ""))) == "has an input `a` that has a shape that no tensor has");
  }
  CHECK(WrongOf(Input("a", Floats(std::vector<std::int64_t>(9, 1), ""))) == "has an input `a` that has a rank above 8");
  CHECK(WrongOf(Input("a", Number(1, 7) + Shape({1}) + Sized(4, "text"))) ==
        "has an input `a` that is of strings, which tensor_content cannot hold");
  CHECK(WrongOf(Sized(1, Sized(4, "stable"))) == "names a version_label; versions have numbers alone here");
}

TEST_CASE("a few bytes do not become a large tensor, nor many of them") {
  const std::string half = Floats({kMostRepeated / 2 + 2}, Sized(5, Bytes({1})));
  CHECK(WrongOf(Input("a", half)) == "");
  CHECK(WrongOf(Input("a", half) + Input("b", half)).starts_with("has an input `b` that has 1 values where"));
  std::string many;
  for (std::size_t i = 0; i <= kMostInputs; ++i) many += Input(std::to_string(i), Floats({0}, ""));
  CHECK(WrongOf(many) == "has more than 4096 inputs");
}

TEST_CASE("an answer is a message that a reader of protobuf takes") {
  const std::vector<float> scores{0.25f, 0.5f, 0.75f};
  const PredictResponse response{
      "ctr",
      "predict",
      300,
      {{"probabilities", TensorType::kFloat, {3, 1}, {reinterpret_cast<const char*>(scores.data()), 12}}}};
  std::string bytes(PredictResponseBytes(response), 'x');
  WritePredictResponse(response, bytes.data());
  CHECK(bytes == Sized(1, Sized(1, "probabilities") + Sized(2, Floats({3, 1}, Sized(5, Bytes(scores))))) +
                     Sized(2, Sized(1, "ctr") + Sized(2, Number(1, 300)) + Sized(3, "predict")));
}

TEST_CASE("values are in the field of their type") {
  const std::int32_t small[] = {1, -1};
  const std::int64_t large[] = {300, -1, 0};
  const auto written = [](TensorType type, std::int64_t count, const void* values, std::size_t size) {
    const PredictResponse response{"", "", {}, {{"y", type, {count}, {static_cast<const char*>(values), size}}}};
    std::string bytes(PredictResponseBytes(response), 'x');
    WritePredictResponse(response, bytes.data());
    return bytes;
  };
  const auto expected = [](std::uint64_t type, std::int64_t count, const std::string& values) {
    return Sized(1, Sized(1, "y") + Sized(2, Number(1, type) + Shape({count}) + values)) +
           Sized(2, Sized(1, "") + Sized(3, ""));
  };
  const std::string minus = Varint(~std::uint64_t{0});
  CHECK(written(TensorType::kInt32, 2, small, sizeof(small)) == expected(3, 2, Sized(7, Varint(1) + minus)));
  CHECK(written(TensorType::kInt64, 3, large, sizeof(large)) ==
        expected(9, 3, Sized(10, Varint(300) + minus + Varint(0))));
  CHECK(written(TensorType::kBool, 2, "\1\0", 2) == expected(10, 2, Sized(11, std::string("\1\0", 2))));
}

TEST_CASE("requests of one form become one") {
  const std::string one = kTexts + Input("x", Floats({2, 1}, Sized(4, Bytes({1, 2}))));
  const std::string other = Input("x", Floats({1, 1}, Sized(4, Bytes({3})))) +
                            Input("examples", Number(1, 7) + Shape({1}) + Sized(8, "three"));
  std::vector<PredictRequest> requests;
  for (const std::string* bytes : {&one, &other}) requests.push_back(ParsePredictRequest(*bytes).request);
  JoinedRequests joined = JoinRequests(requests);
  REQUIRE(joined.wrong == "");
  CHECK(joined.rows == std::vector<std::int64_t>{2, 1});
  CHECK(joined.inputs[0].strings == std::vector<std::string_view>{"one", "", "three"});
  CHECK(joined.inputs[1].dims == std::vector<std::int64_t>{3, 1});
  CHECK(FloatsOf(joined.inputs[1]) == std::vector<float>{1, 2, 3});

  const std::string wide = kTexts + Input("x", Floats({2, 2}, ""));
  requests.push_back(ParsePredictRequest(wide).request);
  joined = JoinRequests(requests);
  CHECK(joined.wrong == "has another type or shape of `x` than others of its batch");
  CHECK(joined.number == 2);
  requests[2] = ParsePredictRequest(kTexts).request;
  CHECK(JoinRequests(requests).wrong == "has another number of inputs than others of its batch");
  const std::string uneven = kTexts + Input("x", Floats({1, 1}, ""));
  requests[2] = ParsePredictRequest(uneven).request;
  CHECK(JoinRequests(requests).wrong == "input `x` has another number of rows than the inputs before it");
}

TEST_CASE("changed requests are refused, or read within their bytes") {
  const std::string bytes = kSpec + kTexts + Input("x", Floats({2, 1}, Sized(4, Bytes({1, 2})))) +
                            Input("y", Number(1, 9) + Shape({3}) + Sized(10, Varint(1) + Varint(300)));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = bytes;
    for (unsigned n = 1 + random() % 3; n > 0; --n) changed[random() % changed.size()] = static_cast<char>(random());
    if (random() % 4 == 0) changed.resize(random() % changed.size());
    testing::ReadRequest(reinterpret_cast<const std::uint8_t*>(changed.data()), changed.size());
  }
}

}  // namespace
}  // namespace afo
