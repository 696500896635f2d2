// Bytes as somebody may hand them to the reader of a checkpoint; what is wrong ends the program. fuzz.sh has libFuzzer look
// for such bytes, the unit tests (fuzz_snapshot_test.cc) change what was written.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "afo/core/snapshot.h"
#include "afo/core/table.h"

namespace afo::testing {
namespace {

constexpr std::size_t kHeader = 24;
constexpr std::uint64_t kRow = 16;

void Require(bool holds) {
  if (!holds) std::abort();
}

template <typename T>
T At(const std::string& bytes, std::size_t place) {
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof(T));
  return value;
}

// Puts the right checksum where the header says that it is, so that what lies behind it is reached.
void Sign(std::string* bytes) {
  if (bytes->size() < kHeader + 4) return;
  const std::uint64_t room = bytes->size() - kHeader - 4;
  const auto floats = At<std::uint32_t>(*bytes, 4);
  const auto rows = At<std::uint64_t>(*bytes, 8), removed = At<std::uint64_t>(*bytes, 16);
  if (removed > room / 8 || rows > room / (kRow + 4ull * floats)) return;
  const std::uint64_t body = removed * 8 + rows * (kRow + 4ull * floats);
  if (body > room) return;
  const std::uint32_t sum = Crc32c(bytes->data(), kHeader + body);
  std::memcpy(bytes->data() + kHeader + body, &sum, 4);
}

}  // namespace

// The first byte: how many floats a row of the table has, and whether the others are signed.
void ReadAsBlock(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const std::uint32_t floats = 1 + data[0] % 8;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 0x80) Sign(&bytes);
  const auto [error, block, used] = Decode(bytes, floats);
  if (error != BlockError::kNone) {
    Require(block.empty() && used == 0);
    return;
  }
  // What was read is what was there.
  Require(used <= bytes.size());
  Require(Encode(block) == bytes.substr(0, used));
  // A table takes it, whatever its keys and values are.
  TableOptions options;
  options.dim = static_cast<std::int32_t>(floats);
  options.optimizer.rule = Rule::kSgd;
  options.admission.min_count = 1 + data[0] / 8 % 2;
  options.admission.max_element_size = data[0] / 16 % 2 * 500;
  Table table(options);
  Require(table.Import(block, {}) == (block.kind != BlockKind::kRows ? 0 : static_cast<std::int64_t>(block.keys.size())));
  Require(table.size() <= static_cast<std::int64_t>(block.keys.size()));
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::ReadAsBlock(data, size);
  return 0;
}
#endif
