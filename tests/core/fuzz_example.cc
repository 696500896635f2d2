// Bytes as somebody may hand them to the decoder of records; what is wrong ends the program. fuzz.sh has libFuzzer look
// for such bytes, the unit tests (fuzz_example_test.cc) change what was written.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "afo/core/example.h"

namespace afo::testing {
namespace {

constexpr std::int64_t kWidth = 3, kRows = 2;

// Two rows of every kind of column; what is not written stays as `unset`.
struct Columns {
  std::vector<std::int64_t> ids, lists;
  std::vector<float> prices;
  std::vector<std::string_view> words;
  std::vector<void*> outputs;

  Columns()
      : ids(kRows, 99), lists(kRows * kWidth, 99), prices(kRows * kWidth, 99), words(kRows, "unset"),
        outputs{ids.data(), lists.data(), prices.data(), words.data()} {}

  bool SameRow(std::int64_t row, const Columns& other, std::int64_t other_row) const {
    return ids[row] == other.ids[other_row] && words[row] == other.words[other_row] &&
           std::memcmp(&lists[row * kWidth], &other.lists[other_row * kWidth], kWidth * 8) == 0 &&
           std::memcmp(&prices[row * kWidth], &other.prices[other_row * kWidth], kWidth * 4) == 0;
  }
};

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// A record says the same to a decoder that knows nothing and to one that has just seen it, which takes short cuts.
void DecodeTwice(const std::uint8_t* data, std::size_t size) {
  const std::int64_t ids[kWidth] = {-1, -2, -3};
  const float prices[kWidth] = {0.5f, 1.5f, 2.5f};
  const std::string_view word = "none";
  const ExampleColumns wanted({{"id", ListKind::kInt64, 1, false, false, ids},
                               {"list", ListKind::kInt64, kWidth, true, false, ids},
                               {"price", ListKind::kFloat, kWidth, false, false, prices},
                               {"word", ListKind::kBytes, 1, false, false, &word}});
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  Columns first, again;
  ExampleDecoder decoder(wanted, first.outputs), fresh(wanted, again.outputs);
  const std::string words = decoder.Decode(record, 0);
  Require(decoder.Decode(record, 1) == words);
  Require(fresh.Decode(record, 1) == words);
  if (!words.empty()) return;
  Require(first.SameRow(1, first, 0));
  Require(again.SameRow(1, first, 0));
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::DecodeTwice(data, size);
  return 0;
}
#endif
