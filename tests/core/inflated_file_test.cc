#include "afo/core/inflated_file.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afo/core/record_file.h"
#include "tests/core/deflated.h"
#include "tests/core/support.h"

namespace afo {
namespace testing {
std::string Framed(const std::string& record);                       // fuzz_record_file.cc
void ReadAsCompressed(const std::uint8_t* data, std::size_t size);  // fuzz_inflated_file.cc
}  // namespace testing
namespace {

using testing::Deflated;
using testing::Framed;
using testing::MemoryFile;

std::string Noise(testing::Random* random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random->Below(40));
  return bytes;
}

// The records of a file until it ends or is lost, and why.
std::vector<std::string> RecordsOf(const std::string& bytes, Compression compression, std::string* wrong) {
  const MemoryFile memory(bytes);
  RecordFile file(memory.path(), compression);
  std::vector<std::string> records;
  for (auto next = file.Next(); next.found == RecordFile::Found::kRecord; next = file.Next()) {
    records.emplace_back(next.data);
  }
  *wrong = file.wrong();
  return records;
}

TEST_CASE("whatever the bytes are, they unpack as zlib unpacks them all at once") {
  testing::Random random(1);
  for (int input = 0; input < 3000; ++input) {
    CAPTURE(input);
    std::string written(1, static_cast<char>(random.Bits()));
    for (std::uint64_t left = random.Below(4); left > 0; --left) {
      written += Deflated(Noise(&random, random.Below(3000)), written[0] & 1);
    }
    if (input % 8 == 0) written.resize(random.Below(written.size()));
    for (std::uint64_t changes = random.Below(3); changes > 0 && !written.empty(); --changes) {
      written[random.Below(written.size())] = static_cast<char>(random.Bits());
    }
    testing::ReadAsCompressed(reinterpret_cast<const std::uint8_t*>(written.data()), written.size());  // aborts
  }
}

TEST_CASE("records of compressed files, also longer than what is read at once, and over several streams") {
  testing::Random random(2);
  std::vector<std::string> records = {"first", "", Noise(&random, 5 << 20), std::string(3 << 20, 'a'), "last"};
  std::string all;
  for (const std::string& record : records) all += Framed(record);
  for (const bool is_gzip : {true, false}) {
    const auto compression = is_gzip ? Compression::kGzip : Compression::kZlib;
    std::string wrong;
    CHECK(RecordsOf(Deflated(all, is_gzip), compression, &wrong) == records);
    CHECK(wrong == "");
    const std::string two = Deflated(all.substr(0, 1000000), is_gzip) + Deflated(all.substr(1000000), is_gzip);
    CHECK(RecordsOf(two, compression, &wrong) == records);
    CHECK(wrong == "");
  }
}

TEST_CASE("records before damage are given, and its place is told") {
  testing::Random random(3);
  const std::vector<std::string> records = {Noise(&random, 100), Noise(&random, 400000)};
  const std::string packed = Deflated(Framed(records[0]) + Framed(records[1]), true);
  std::string wrong;
  CHECK(RecordsOf(packed.substr(0, packed.size() - 9), Compression::kGzip, &wrong).size() >= 1);
  CHECK(wrong.find("gzip data is cut off at byte " + std::to_string(packed.size() - 9) + " of the file") == 0);
  std::string changed = packed;
  changed[packed.size() - 6] ^= 1;  // of the sum
  CHECK(RecordsOf(changed, Compression::kGzip, &wrong) == records);
  CHECK(wrong.find("gzip data is damaged near byte ") == 0);
  CHECK(RecordsOf(packed + "more", Compression::kGzip, &wrong) == records);
  CHECK(wrong.find("gzip data is damaged near byte ") == 0);
  CHECK(RecordsOf(packed, Compression::kZlib, &wrong).empty());
  CHECK(wrong.find("zlib data is damaged near byte ") == 0);
  CHECK(RecordsOf("", Compression::kGzip, &wrong).empty());
  CHECK(wrong == "");
}

TEST_CASE("a record that is cut off, in a compressed file that is whole") {
  const std::string cut = Framed(std::string(1 << 16, 'x')).substr(0, 60000);
  std::string wrong;
  CHECK(RecordsOf(Deflated(cut, true), Compression::kGzip, &wrong).empty());
  CHECK(wrong == "record at offset 0 is cut off: 60000 of its 65552 bytes are there; copy or write the file again");
}

}  // namespace
}  // namespace afo
