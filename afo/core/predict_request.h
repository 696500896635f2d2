// Requests of TensorFlow Serving's Predict API, read without protobuf.
//
//   PredictRequest { ModelSpec model_spec = 1; map<string, TensorProto> inputs = 2; repeated string output_filter = 3; }
//   ModelSpec      { string name = 1; Int64Value version = 2; string signature_name = 3; string version_label = 4; }
//   TensorProto    { DataType dtype = 1; TensorShapeProto tensor_shape = 2; bytes tensor_content = 4; values by type }
//
// Whoever wrote a request is not trusted: no length is believed beyond the bytes that are there, and a tensor has as
// many values as its shape says. Unknown fields are skipped, and of a field that is there twice the last counts, as in
// protobuf; an input or a shape that is there twice is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace afo {

// Those of TensorFlow's `DataType` that a request or an answer may have, with its numbers.
enum class TensorType : std::uint32_t { kFloat = 1, kInt32 = 3, kString = 7, kInt64 = 9, kBool = 10 };

// As TensorFlow writes it, `DT_FLOAT` and so on.
std::string_view NameOf(TensorType type);

// Bytes of a number; 0 of a string.
std::size_t SizeOf(TensorType type);

constexpr std::size_t kMostRank = 8;
constexpr std::size_t kMostInputs = 4096;
// Of a request: 16 bytes of it could else cost the memory of millions.
constexpr std::int64_t kMostRows = 1 << 16;
// Where a tensor holds fewer values than its shape says the last one stands for the rest: for so many in a request.
constexpr std::int64_t kMostRepeated = 1 << 20;

struct RequestTensor {
  std::string_view name;
  TensorType type = TensorType::kFloat;
  std::vector<std::int64_t> dims;
  // Of kString: one for each element, within the request. Of numbers: empty.
  std::vector<std::string_view> strings;
  // The elements of numbers, little-endian and in no alignment: within the request, or in `decoded`.
  std::string_view numbers;
  std::vector<char> decoded;

  RequestTensor() = default;
  RequestTensor(RequestTensor&&) = default;  // what `decoded` holds stays where it is
  RequestTensor& operator=(RequestTensor&&) = default;
  RequestTensor(const RequestTensor&) = delete;
  RequestTensor& operator=(const RequestTensor&) = delete;
};

struct PredictRequest {
  std::string_view model;
  std::string_view signature;
  std::optional<std::int64_t> version;
  std::vector<RequestTensor> inputs;
  std::vector<std::string_view> output_filter;
};

struct ParsedPredictRequest {
  PredictRequest request;  // empty where something is wrong
  std::string wrong;       // as a sentence's end; '' where nothing is
};

// Reads a request. What is returned refers to its bytes.
[[nodiscard]] ParsedPredictRequest ParsePredictRequest(std::string_view bytes);

}  // namespace afo
