// Bytes as somebody may hand them to the reader of TFRecord files; what is wrong ends the program. fuzz.sh has libFuzzer
// look for such bytes, the unit tests (record_file_test.cc) change what was written.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "afo/core/record_file.h"
#include "afo/core/snapshot.h"
#include "tests/core/memory_file.h"

namespace afo::testing {
namespace {

std::uint32_t Masked(const std::string& bytes) {
  const std::uint32_t sum = Crc32c(bytes.data(), bytes.size());
  return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// How many records a part of the file gives, and whether it ends with one.
std::pair<std::size_t, bool> Count(const std::string& path, const ByteRange& range) {
  RecordFile file(path, Compression::kNone, range);
  for (std::size_t count = 0;; ++count) {
    const RecordFile::Found found = file.Next().found;
    if (found == RecordFile::Found::kEnd || found == RecordFile::Found::kLost) {
      Require((found == RecordFile::Found::kLost) == !file.wrong().empty());
      return {count, found == RecordFile::Found::kEnd};
    }
  }
}

// Two parts give the records of a sound file, each once, if one begins where the other ends with one; else one is lost.
void ReadInParts(const std::string& path, const std::set<std::size_t>& borders, std::size_t cut) {
  const std::size_t size = *borders.rbegin();
  const auto [first, is_first_whole] = Count(path, {0, cut});
  const auto [second, is_second_whole] = Count(path, {cut, size});
  if (borders.count(cut) == 0) {
    Require(!is_first_whole);
  } else {
    Require(is_first_whole && is_second_whole && first + second + 1 == borders.size());
  }
  Require(!Count(path, {cut, size + 1}).second);
}

}  // namespace

std::string Framed(const std::string& record) {
  const std::string length = Bytes<std::uint64_t>(record.size());
  return length + Bytes(Masked(length)) + record + Bytes(Masked(record));
}

// What is given lies in the file behind what was given before it, and reading comes to an end. The first byte: whether
// lengths and data that are not whole are signed, so that what lies behind them is reached.
void ReadAsFile(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 1 && bytes.size() >= 12) {
    const std::string sum = Bytes(Masked(bytes.substr(0, 8)));
    bytes.replace(8, 4, sum);
  }
  const MemoryFile memory(bytes);
  RecordFile file(memory.path());
  std::size_t at = 0;
  std::set<std::size_t> borders{0};
  while (true) {
    const auto [found, record] = file.Next();
    if (found == RecordFile::Found::kEnd) {
      Require(at == bytes.size());
      ReadInParts(memory.path(), borders, data[0] * (size - 1) / 255);
      const auto near = borders.upper_bound(data[0] % (bytes.size() + 1));
      ReadInParts(memory.path(), borders, near == borders.end() ? 0 : *near);
      break;
    }
    if (found == RecordFile::Found::kLost) {
      Require(!file.wrong().empty());
      Require(file.Next().found == RecordFile::Found::kLost);
      break;
    }
    const std::string whole = bytes.substr(at, record.size() + 16);
    Require((Framed(std::string(record)) == whole) == (found == RecordFile::Found::kRecord));
    at += record.size() + 16;
    Require(at <= bytes.size());
    borders.insert(at);
  }
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::ReadAsFile(data, size);
  return 0;
}
#endif
