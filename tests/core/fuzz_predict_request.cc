// Bytes as anybody may send them to a server, as a request of the Predict API. They are refused, or a request comes of
// them whose parts lie within, with as many values as its shapes say; anything else ends the program. fuzz.sh has
// libFuzzer look for such bytes, the unit tests (predict_request_test.cc) change what was written.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "afo/core/joined_requests.h"
#include "afo/core/predict_request.h"

namespace afo::testing {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

bool LiesIn(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

std::size_t ElementsOf(const RequestTensor& tensor) {
  std::size_t elements = 1;
  for (const std::int64_t dim : tensor.dims) elements *= static_cast<std::size_t>(dim);
  return elements;
}

void CheckTensor(const RequestTensor& tensor, std::string_view bytes) {
  const std::size_t elements = ElementsOf(tensor);
  Require(LiesIn(tensor.name, bytes) && tensor.dims.size() <= kMostRank);
  if (tensor.type == TensorType::kString) {
    Require(tensor.strings.size() == elements && tensor.numbers.empty());
    for (const std::string_view text : tensor.strings) Require(LiesIn(text, bytes));
    return;
  }
  const std::size_t size = tensor.type == TensorType::kInt64 ? 8 : tensor.type == TensorType::kBool ? 1 : 4;
  Require(tensor.strings.empty() && tensor.numbers.size() == elements * size);
  Require(LiesIn(tensor.numbers, bytes) || tensor.numbers.data() == tensor.decoded.data());
}

}  // namespace

void ReadRequest(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::vector<PredictRequest> both;
  for (int i = 0; i < 2; ++i) {
    ParsedPredictRequest parsed = ParsePredictRequest(bytes);
    if (!parsed.wrong.empty()) {
      Require(parsed.request.inputs.empty());
      return;
    }
    both.push_back(std::move(parsed.request));
  }
  for (const RequestTensor& tensor : both[0].inputs) CheckTensor(tensor, bytes);
  const JoinedRequests joined = JoinRequests(both);
  if (!joined.wrong.empty()) return;
  for (std::size_t i = 0; i < joined.inputs.size(); ++i) {
    const RequestTensor& tensor = joined.inputs[i];
    Require(ElementsOf(tensor) == 2 * ElementsOf(both[0].inputs[i]));
    Require(tensor.strings.size() == 2 * both[0].inputs[i].strings.size());
    Require(tensor.numbers.size() == 2 * both[0].inputs[i].numbers.size());
  }
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::ReadRequest(data, size);
  return 0;
}
#endif
