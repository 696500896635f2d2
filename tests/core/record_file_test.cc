#include "afo/core/record_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/core/memory_file.h"
#include "tests/core/support.h"

namespace afo {
namespace testing {
std::string Framed(const std::string& record);                 // fuzz_record_file.cc
void ReadAsFile(const std::uint8_t* data, std::size_t size);  // likewise
}  // namespace testing
namespace {

TEST_CASE("whatever the bytes are, a reader of records gives what was written and nothing else") {
  testing::Random random(1);
  for (int input = 0; input < 5000; ++input) {
    CAPTURE(input);
    std::string written(1, static_cast<char>(random.Bits()));
    for (std::uint64_t left = random.Below(5); left > 0; --left) {
      written += testing::Framed(std::string(random.Below(100), static_cast<char>(random.Bits())));
    }
    if (input % 8 == 0) written.resize(random.Below(written.size()));
    for (std::uint64_t changes = random.Below(3); changes > 0 && !written.empty(); --changes) {
      written[random.Below(written.size())] = static_cast<char>(random.Bits());
    }
    testing::ReadAsFile(reinterpret_cast<const std::uint8_t*>(written.data()), written.size());  // aborts
  }
}

TEST_CASE("a part of a file gives its records, and says where they do not end with it") {
  const std::string one = testing::Framed("one"), two = testing::Framed("four"), three = testing::Framed("");
  const testing::MemoryFile memory(one + two + three);
  const std::size_t begin = one.size(), end = begin + two.size();
  RecordFile part(memory.path(), Compression::kNone, {begin, end});
  const RecordFile::Record record = part.Next();
  REQUIRE(record.found == RecordFile::Found::kRecord);
  CHECK(record.data == "four");
  CHECK(part.Next().found == RecordFile::Found::kEnd);
  RecordFile longer(memory.path(), Compression::kNone, {begin, end + 13});
  REQUIRE(longer.Next().found == RecordFile::Found::kRecord);
  REQUIRE(longer.Next().found == RecordFile::Found::kLost);
  CHECK(longer.wrong() == "record at offset 39 does not end within its split, which ends at 52: the file is cut off, or "
                          "its index is of another one");
  RecordFile within(memory.path(), Compression::kNone, {begin + 1, end});
  REQUIRE(within.Next().found == RecordFile::Found::kLost);
  CHECK(within.wrong().find("length of the record at offset 20 is damaged") == 0);
  RecordFile behind(memory.path(), Compression::kNone, {1000, 1001});
  CHECK(behind.Next().found == RecordFile::Found::kLost);
}

TEST_CASE("a file that is not there says so, once and again") {
  RecordFile file("/proc/self/fd/none");
  for (int time = 0; time < 2; ++time) {
    CHECK(file.Next().found == RecordFile::Found::kLost);
    CHECK(file.wrong().find("cannot be opened") == 0);
  }
}

TEST_CASE("a directory and a pipe are no files of records") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  // Of a name without a writer, `open` itself would wait.
  const std::string named = "/tmp/afo-named-pipe-" + std::to_string(getpid());
  REQUIRE(mkfifo(named.c_str(), 0600) == 0);
  for (const std::string& path : {std::string("/usr"), "/proc/self/fd/" + std::to_string(ends[0]), named}) {
    RecordFile file(path);
    CHECK(file.Next().found == RecordFile::Found::kLost);
    CHECK(file.wrong().find("cannot be ") == 0);
  }
  close(ends[0]);
  close(ends[1]);
  unlink(named.c_str());
}

}  // namespace
}  // namespace afo
