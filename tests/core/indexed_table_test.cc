#include "afo/core/indexed_table.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "afo/core/index.h"
#include "afo/core/mapped_tables.h"
#include "afo/core/served_file.h"
#include "afo/core/served_writer.h"
#include "afo/core/snapshot.h"
#include "tests/core/padded_table.h"
#include "tests/core/support.h"

namespace afo {
namespace {

constexpr float kAbsent = 0.5f;
// Of a table that has no parent.
constexpr std::size_t kRowsAt = 64;

// A file that goes with it.
class Scratch {
 public:
  explicit Scratch(const std::string& content) {
    char name[] = "/tmp/afo-rows-XXXXXX";
    const int number = mkstemp(name);
    REQUIRE(number >= 0);
    file_ = {number};
    path_ = name;
    REQUIRE(file_.Write(0, content.data(), content.size()) == 0);
  }
  Scratch(Scratch&& other) noexcept : file_(std::exchange(other.file_, {-1})), path_(other.path_) {}
  ~Scratch() {
    if (file_.number < 0) return;
    close(file_.number);
    unlink(path_.c_str());
  }
  OpenFile file() const { return file_; }
  const std::string& path() const { return path_; }
  std::string content() const {
    std::string found(static_cast<std::size_t>(lseek(file_.number, 0, SEEK_END)), '\0');
    REQUIRE(file_.Read(0, found.data(), found.size()) == 0);
    return found;
  }

 private:
  OpenFile file_;
  std::string path_;
};

// Rows of two weights: the number of the row, and its half.
std::string RowsOf(const std::vector<std::int64_t>& keys) {
  std::string rows;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const float weights[] = {static_cast<float>(i), static_cast<float>(i) / 2};
    rows.append(reinterpret_cast<const char*>(&keys[i]), 8);
    rows.append(reinterpret_cast<const char*>(weights), 8);
  }
  return rows;
}

Sealing SealingOf(const std::string& rows) {
  return {.header = {.type = RowType::kFloat32, .dim = 2, .count = rows.size() / 16, .absent = kAbsent},
          .rows_checksum = Crc32c(rows.data(), rows.size())};
}

Scratch Written(const std::vector<std::int64_t>& keys, std::uint32_t window = 1u << 20, bool has_index = true) {
  const std::string rows = RowsOf(keys);
  Scratch scratch(std::string(kRowsAt, '\0') + rows);
  Sealing sealing = SealingOf(rows);
  sealing.window = window;
  sealing.has_index = has_index;
  const Sealed sealed = Seal(scratch.file(), sealing);
  REQUIRE(sealed.error == 0);
  REQUIRE(sealed.wrong.empty());
  return scratch;
}

ReadAt ReaderOf(const std::string& file) {
  return [&file](std::uint64_t offset, char* to, std::size_t size) -> std::string {
    if (offset + size > file.size()) return "it was cut off";
    std::copy_n(file.data() + offset, size, to);
    return "";
  };
}

bool Never() { return false; }

// As a mapped file has it.
class Aligned {
 public:
  explicit Aligned(const std::string& file) {
    REQUIRE(pages_.Grow(file.size()));
    std::memcpy(pages_.data(), file.data(), file.size());
  }
  const std::uint8_t* data() const { return pages_.data(); }

 private:
  Pages pages_;
};

std::vector<float> Expected(const std::vector<std::int64_t>& keys, const std::vector<std::int64_t>& asked) {
  std::vector<float> weights;
  for (const std::int64_t key : asked) {
    const auto found = std::lower_bound(keys.begin(), keys.end(), key);
    const bool there = found != keys.end() && *found == key;
    const auto row = static_cast<float>(found - keys.begin());
    weights.push_back(there ? row : kAbsent);
    weights.push_back(there ? row / 2 : kAbsent);
  }
  return weights;
}

// What a lookup says is wrong; where nothing is, the weights have to be these.
std::string Asked(const ServedRows& table, const std::vector<std::int64_t>& asked, const std::vector<float>& expected) {
  std::vector<float> weights(expected.size());
  std::string wrong = table.Lookup(asked.data(), static_cast<std::int64_t>(asked.size()), weights.data());
  if (wrong.empty()) REQUIRE(weights == expected);
  return wrong;
}

// What is wrong with a file as it is opened, or asked for these keys.
std::string WrongOf(const std::string& file, const std::vector<std::int64_t>& asked, const std::vector<float>& expected,
                    bool copied) {
  const auto [layout, wrong] = ParseServedLayout(file.data(), file.size());
  if (!wrong.empty()) return wrong;
  IndexedTable table(layout, "f");
  if (std::string found = table.ReadSums(ReaderOf(file)); !found.empty()) return found;
  const Aligned aligned(file);
  if (copied) {
    if (std::string found = table.Copy(ReaderOf(file), Never); !found.empty()) return found;
  } else {
    table.Map(aligned.data());
  }
  return Asked(table, asked, expected);
}

TEST_CASE("a served file answers for each of its keys, mapped and copied, and for no other") {
  testing::Random random(3);
  for (const std::size_t count : {0, 1, 11, 12, 13, 1000, 20000}) {
    CAPTURE(count);
    const std::vector<std::int64_t> all = random.Keys(2 * count + 1);
    std::vector<std::int64_t> keys;
    for (std::size_t i = 0; i < count; ++i) keys.push_back(all[2 * i]);
    const std::string written = Written(keys).content();
    const std::vector<float> expected = Expected(keys, all);
    for (const std::string& file : {written, testing::Padded(written)}) {
      CHECK(WrongOf(file, all, expected, false).empty());
      CHECK(WrongOf(file, all, expected, true).empty());
      const auto [layout, wrong] = ParseServedLayout(file.data(), file.size());
      ServedFile in_file(layout.header, layout.rows_at(), ReaderOf(file));
      REQUIRE(in_file.Build(layout).empty());
      CHECK(Asked(in_file, all, expected).empty());
    }
  }
}

TEST_CASE("an index takes 2.7 to 3.9 bytes a key of 1,000 to 100,000 rows, and a file 200 beside it") {
  for (const auto& [count, of_a_key] : {std::pair{1000, 2.71}, {10000, 3.53}, {100000, 3.92}}) {
    const std::vector<std::int64_t> keys = testing::Random(9).Keys(static_cast<std::size_t>(count));
    const auto bytes = static_cast<double>(Written(keys).content().size());
    const double rows = 16.0 * count, sums = (rows + of_a_key * count) / 1024;
    CHECK(bytes <= rows + of_a_key * count + sums + 200);
  }
}

TEST_CASE("numbers of any bits are found in the places of a line where they were put") {
  testing::Random random(10);
  for (int bits = 8; bits <= 32; ++bits) {
    CAPTURE(bits);
    const PackedShape shape(bits);
    const auto row = [&](int place) { return static_cast<std::uint32_t>(random.Bits() * (place + 1) >> (64 - bits)); };
    PackedLine line{};
    std::vector<std::uint32_t> rows;
    for (int place = 0; place < shape.places(); ++place) {
      rows.push_back(place % 5 == 0 ? static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1) : row(place));
      REQUIRE(PlaceIn(shape, &line, static_cast<std::uint8_t>(1 + place % 7), rows.back()));
    }
    CHECK(!shape.is_passed(line));
    CHECK(!PlaceIn(shape, &line, 1, 0));
    CHECK(shape.is_passed(line));
    for (int place = 0; place < shape.places(); ++place) {
      CHECK(shape.row(line, place) == rows[static_cast<std::size_t>(place)]);
      CHECK((shape.Matches(line, static_cast<std::uint8_t>(1 + place % 7)) >> place & 1) == 1);
    }
    CHECK(shape.Matches(line, 0) + shape.Matches(line, 8) == 0);
  }
  CHECK(PackedShape(32).places() == kLinePlaces);
  CHECK(PackedShape::Of(0).places() == 31);
  CHECK(PackedShape::Of(256).places() == 31);
  CHECK(PackedShape::Of(257).places() == 29);
  CHECK(PackedShape::Of(1ull << 32).places() == 12);
}

TEST_CASE("an index that is written window by window answers as one that is written at once") {
  testing::Random random(4);
  std::vector<std::int64_t> keys = random.Keys(30000);
  // Past the ends of windows, and of the last one to the first.
  std::set<std::int64_t> more(keys.begin(), keys.end());
  for (std::uint64_t i = 0; i < 400; ++i) {
    more.insert(testing::KeyOf(testing::HashFrom(i, 1, testing::kLastLine, 7 + i % 100)));
    more.insert(testing::KeyOf(testing::HashFrom(i, 2, 0x7fffffff, 7 + i % 100)));
  }
  keys.assign(more.begin(), more.end());
  const std::vector<float> expected = Expected(keys, keys);
  for (const std::uint32_t window : {1u, 10u, 1000u, 3000u, 1u << 20}) {
    CAPTURE(window);
    const std::string file = Written(keys, window).content();
    CHECK(WrongOf(file, keys, expected, true).empty());
    const std::vector<std::int64_t> others = random.Keys(1000);
    CHECK(WrongOf(file, others, Expected(keys, others), true).empty());
  }
}

TEST_CASE("a file of which any byte is another, or any byte is missing, is refused or answers as before") {
  const std::vector<std::int64_t> keys = testing::Random(5).Keys(300);
  const std::string written = Written(keys).content();
  const std::vector<float> expected = Expected(keys, keys);
  // 13 lines; two blocks are begun.
  REQUIRE(written.size() == kRowsAt + 4800 + 13 * 64 + 8);
  REQUIRE(testing::Padded(written).size() == kBlockBytes * 4 + 12);
  for (const std::string& good : {written, testing::Padded(written)}) {
    const auto [layout, wrong] = ParseServedLayout(good.data(), good.size());
    std::size_t refused = 0;
    for (std::size_t place = 0; place < good.size(); ++place) {
      CAPTURE(place);
      std::string changed = good;
      changed[place] = static_cast<char>(changed[place] ^ (1 << place % 8));
      const std::string mapped = WrongOf(changed, keys, expected, false);
      refused += !mapped.empty();
      REQUIRE(!WrongOf(changed, {}, {}, true).empty());
      if (place >= layout.rows_at() && place < layout.sums_at()) {
        const std::size_t page = place / kBlockBytes * kBlockBytes;
        const std::size_t begin = std::max<std::size_t>(page, layout.rows_at());
        const std::size_t end = std::min<std::size_t>(page + kBlockBytes, layout.sums_at());
        REQUIRE(mapped == "f: it is damaged in bytes " + std::to_string(begin) + " to " + std::to_string(end - 1));
      }
      REQUIRE(!WrongOf(good.substr(0, place), keys, expected, false).empty());
    }
    CHECK(refused == good.size());  // all blocks are needed for all keys
  }
}

TEST_CASE("a damaged block is an error of the keys that need it alone") {
  const std::vector<std::int64_t> keys = testing::Random(6).Keys(5000);
  std::string file = Written(keys).content();
  file[3 * kBlockBytes + 9] ^= 1;
  const auto [layout, wrong] = ParseServedLayout(file.data(), file.size());
  IndexedTable table(layout, "f");
  REQUIRE(table.ReadSums(ReaderOf(file)).empty());
  const Aligned aligned(file);
  table.Map(aligned.data());
  const std::string damaged = "it is damaged in bytes 12288 to 16383";
  int others = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string found = Asked(table, {keys[i]}, Expected(keys, {keys[i]}));
    CHECK((found.empty() || found == "f: " + damaged));
    if ((kRowsAt + i * 16) / kBlockBytes == 3) {
      CHECK(!found.empty());
    } else {
      others += !found.empty();
    }
  }
  CHECK(others < 50);  // keys that have the tag of one in the block, where the search comes to that one first
  CHECK(table.CheckAll([](std::size_t, std::size_t) {}, Never) == damaged);
  CHECK(!table.is_whole());
  CHECK(table.Copy(ReaderOf(file), Never) == damaged);
  CHECK(Asked(table, {keys[0]}, Expected(keys, {keys[0]})).empty());
}

TEST_CASE("lookups go on while a table is copied or checked") {
  const std::vector<std::int64_t> keys = testing::Random(7).Keys(100000);
  const Scratch scratch = Written(keys);
  const std::string file = scratch.content();
  const std::vector<float> expected = Expected(keys, keys);
  const auto [layout, wrong] = ParseServedLayout(file.data(), file.size());
  const Aligned aligned(file);
  for (const bool copied : {false, true}) {
    IndexedTable table(layout, "f");
    REQUIRE(table.ReadSums(ReaderOf(file)).empty());
    table.Map(aligned.data());
    std::string found;
    std::thread other([&] {
      found = copied ? table.Copy(ReaderOf(file), Never) : table.CheckAll([](std::size_t, std::size_t) {}, Never);
    });
    while (!table.is_whole()) CHECK(Asked(table, keys, expected).empty());
    other.join();
    CHECK(found.empty());
    CHECK(Asked(table, keys, expected).empty());
    CHECK((table.bytes() > file.size() - 2 * kBlockBytes) == copied);
  }
}

TEST_CASE("what opens the same file has the same table, and another file another one") {
  const Scratch scratch = Written(testing::Random(8).Keys(1000)), other = Written(testing::Random(8).Keys(1000));
  const auto opened = [](const Scratch& of, Placement placement) {
    const std::string file = of.content();
    const auto [layout, wrong] = ParseServedLayout(file.data(), file.size());
    return OpenTable(MappedFile::Open(of.path()), of.path(), layout, placement, [](const std::string&) {}).table;
  };
  for (const Placement placement : {Placement::kPrivate, Placement::kShared}) {
    const auto first = opened(scratch, placement);
    REQUIRE(first != nullptr);
    CHECK(opened(scratch, placement) == first);
    CHECK(opened(other, placement) != first);
  }
  CHECK(opened(scratch, Placement::kPrivate) != opened(scratch, Placement::kShared));
  CHECK(MappedFile::Open("/nowhere") == nullptr);
  CHECK(MappedFile::Open("/tmp") == nullptr);
}

TEST_CASE("a header that cannot be right is refused, and why") {
  const auto wrong = [](ServedLayout layout, std::uint64_t more = 0) {
    const std::string bytes = EncodeHeader(&layout);
    return ParseServedLayout(bytes.data(), layout.size() + more).wrong;
  };
  const ServedLayout good{.header = {.type = RowType::kInt8, .dim = 4, .count = 9, .absent = 0}, .lines = 2};
  CHECK(wrong(good).empty());
  CHECK(wrong(good, 4) == "it has 392 bytes, and its header speaks of 388");
  ServedLayout bad = good;
  bad.header.dim = 5000;
  CHECK(wrong(bad) == "its rows have an impossible width");
  bad = good;
  bad.header.count = 1ull << 60;
  CHECK(wrong(bad) == "it has more rows than a table can");
  bad = good;
  bad.lines = 1ull << 32;
  CHECK(wrong(bad) == "it has more lines of an index than a table can");
  for (const bool is_padded : {false, true}) {
    ServedLayout layout = good;
    layout.is_padded = is_padded;
    std::string later = EncodeHeader(&layout);
    later[later.size() - 6] = 1;  // behind the zero that ends the path
    const std::uint32_t checksum = Crc32c(later.data(), later.size() - 4);
    std::memcpy(later.data() + later.size() - 4, &checksum, 4);
    CHECK(ParseServedLayout(later.data(), layout.size()).wrong ==
          "it is of a later form of tables, which this version of afo cannot read");
  }
}

TEST_CASE("a path of any length is in a header, and one that does not end is none") {
  for (std::size_t length = 1; length <= kMostParentPath; ++length) {
    CAPTURE(length);
    ServedLayout layout{.header = {.type = RowType::kFloat32, .dim = 1, .count = 0, .absent = 0},
                        .parent = 7,
                        .parent_path = std::string(length, 'p')};
    std::string bytes = EncodeHeader(&layout);
    REQUIRE(bytes.size() == layout.rows_at());
    REQUIRE(bytes.size() % 64 == 0);
    const ParsedServedLayout parsed = ParseServedLayout(bytes.data(), layout.size());
    REQUIRE(parsed.wrong.empty());
    REQUIRE(parsed.layout.parent_path == layout.parent_path);
    REQUIRE(parsed.layout.id() == layout.id());
    REQUIRE(!ParseServedLayout(bytes.data(), bytes.size() - 1).wrong.empty());
    std::replace(bytes.begin() + 56, bytes.end(), '\0', 'p');
    REQUIRE(ParseServedLayout(bytes.data(), bytes.size()).wrong == "its header is damaged, or cut off");
  }
}

TEST_CASE("rows that are not what they should be become no table") {
  const std::string rows = RowsOf({1, 2, 3});
  const auto sealed = [](const std::string& content, Sealing sealing) {
    const Scratch scratch(std::string(kRowsAt, '\0') + content);
    Sealed found = Seal(scratch.file(), sealing);
    if (found.error != 0 || !found.wrong.empty()) CHECK(scratch.content().substr(0, 8) == std::string(8, '\0'));
    return found;
  };
  CHECK(sealed(rows, SealingOf(rows)).wrong.empty());
  Sealing other = SealingOf(rows);
  other.rows_checksum ^= 1;
  CHECK(sealed(rows, other).wrong == "its rows are not those that were written");
  const std::string falling = RowsOf({1, 3, 2});
  CHECK(sealed(falling, SealingOf(falling)).wrong == "its keys do not rise");
  other = SealingOf(rows);
  other.header.count = 1000;
  CHECK(sealed(rows, other).error == EIO);
}

TEST_CASE("a file without an index is read in place alone") {
  const std::vector<std::int64_t> keys{1, 5, 9};
  const std::string file = Written(keys, 1, /*has_index=*/false).content();
  CHECK(file.size() == 2 * kRowsAt + 4);
  CHECK(WrongOf(file, keys, {}, false) == "it has no index, so that it can only be read in its file");
  const auto [layout, wrong] = ParseServedLayout(file.data(), file.size());
  ServedFile in_file(layout.header, kRowsAt, ReaderOf(file));
  REQUIRE(in_file.Build(layout).empty());
  CHECK(Asked(in_file, {9, 2}, {2, 1, kAbsent, kAbsent}).empty());
}

}  // namespace
}  // namespace afo
