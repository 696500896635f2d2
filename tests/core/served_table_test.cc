#include "afo/core/served_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "afo/core/served_file.h"
#include "afo/core/snapshot.h"
#include "tests/core/support.h"

namespace afo {
namespace testing {
void ServeFile(const std::uint8_t* data, std::size_t size);  // fuzz_served_table.cc
}  // namespace testing
namespace {

template <typename T>
void Append(std::string* to, T value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Header(std::uint32_t type, std::uint32_t dim, std::uint64_t count, float absent) {
  std::string bytes = "AFOROWS1";
  Append(&bytes, type);
  Append(&bytes, dim);
  Append(&bytes, count);
  Append(&bytes, absent);
  Append(&bytes, Crc32c(bytes.data(), bytes.size()));
  return bytes;
}

std::string File(std::uint32_t type, std::uint32_t dim, std::uint64_t count, const std::string& rows) {
  std::string bytes = Header(type, dim, count, 0.5f) + rows;
  Append(&bytes, Crc32c(rows.data(), rows.size()));
  return bytes;
}

ReadAt ReaderOf(const std::string& file) {
  return [&file](std::uint64_t offset, char* to, std::size_t size) -> std::string {
    if (offset + size > file.size()) return "it was cut off";
    std::memcpy(to, file.data() + offset, size);
    return "";
  };
}

std::string WrongOf(const std::string& file) {
  const auto [header, wrong] = ParseServedHeader(file.data(), file.size());
  if (!wrong.empty()) return wrong;
  ServedTable table(header);
  REQUIRE(table.Reserve());
  std::memcpy(table.rows(), file.data() + kServedHeaderBytes, table.row_bytes());
  std::uint32_t checksum;
  std::memcpy(&checksum, file.data() + file.size() - kServedTrailerBytes, sizeof(checksum));
  const std::string found = table.Build(checksum);
  CHECK(ServedFile(header, kServedHeaderBytes, ReaderOf(file)).Build(checksum) == found);
  return found;
}

std::vector<float> Found(const std::string& file, const std::vector<std::int64_t>& keys) {
  const auto [header, wrong] = ParseServedHeader(file.data(), file.size());
  REQUIRE(wrong.empty());
  ServedTable table(header);
  REQUIRE(table.Reserve());
  std::memcpy(table.rows(), file.data() + kServedHeaderBytes, table.row_bytes());
  REQUIRE(table.Build(Crc32c(table.rows(), table.row_bytes())).empty());
  std::vector<float> weights(keys.size() * static_cast<std::size_t>(header.dim));
  const auto count = static_cast<std::int64_t>(keys.size());
  CHECK(table.Lookup(keys.data(), count, weights.data()).empty());
  ServedFile in_file(header, kServedHeaderBytes, ReaderOf(file));
  REQUIRE(in_file.Build(Crc32c(table.rows(), table.row_bytes())).empty());
  std::vector<float> same(weights.size());
  CHECK(in_file.Lookup(keys.data(), count, same.data()).empty());
  CHECK(same == weights);
  return weights;
}

TEST_CASE("a row of each type is float32, and a key that is not there has what the file says") {
  std::string rows;
  Append<std::int64_t>(&rows, -3);
  for (const float weight : {1.25f, -2.0f}) Append(&rows, weight);
  CHECK(Found(File(0, 2, 1, rows), {7, -3, -3}) == std::vector<float>{0.5f, 0.5f, 1.25f, -2.0f, 1.25f, -2.0f});
  rows.clear();
  Append<std::int64_t>(&rows, -3);
  for (const std::uint16_t upper : {0x3fa0, 0xc000}) Append<std::uint16_t>(&rows, upper);
  CHECK(Found(File(1, 2, 1, rows), {-3, 0}) == std::vector<float>{1.25f, -2.0f, 0.5f, 0.5f});
  rows.clear();
  Append<std::int64_t>(&rows, -3);
  Append(&rows, 0.25f);
  for (const std::int8_t code : {127, -128}) Append<std::int8_t>(&rows, code);
  CHECK(Found(File(2, 2, 1, rows), {-3, INT64_MAX}) == std::vector<float>{31.75f, -32.0f, 0.5f, 0.5f});
  CHECK(Found(File(0, 1, 0, ""), {0, -1}) == std::vector<float>{0.5f, 0.5f});
}

TEST_CASE("each of many keys has its own row, and no other key has one") {
  testing::Random random(5);
  const std::vector<std::int64_t> all = random.Keys(20000);  // in order
  std::string rows;
  std::vector<float> expected;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    Append(&rows, all[i]);
    Append(&rows, static_cast<float>(i));
  }
  for (std::size_t i = 0; i < all.size(); ++i) expected.push_back(i % 2 == 0 ? static_cast<float>(i) : 0.5f);
  CHECK(Found(File(0, 1, all.size() / 2, rows), all) == expected);
}

TEST_CASE("of a table in its file a hundredth is in memory, and a file that was cut off is an error") {
  std::string rows;
  for (std::int64_t key = 0; key < 20000; ++key) {
    Append(&rows, key);
    for (int i = 0; i < 4; ++i) Append(&rows, 1.0f);
  }
  std::string file = File(0, 4, 20000, rows);
  const auto [header, wrong] = ParseServedHeader(file.data(), file.size());
  ServedFile table(header, kServedHeaderBytes, ReaderOf(file));
  REQUIRE(table.Build(Crc32c(rows.data(), rows.size())).empty());
  CHECK(table.bytes() * 100 < file.size());
  file.resize(file.size() / 2);
  std::vector<float> weights(4);
  const std::int64_t there = 3, lost = 19999, before = -1;
  CHECK(table.Lookup(&there, 1, weights.data()).empty());
  CHECK(table.Lookup(&before, 1, weights.data()).empty());
  CHECK(table.Lookup(&lost, 1, weights.data()) == "it was cut off");
}

TEST_CASE("a file that cannot be right is refused, and why") {
  std::string rows;
  for (const std::int64_t key : {1, 2}) {
    Append(&rows, key);
    Append(&rows, 1.0f);
  }
  const std::string good = File(0, 1, 2, rows);
  CHECK(WrongOf(good).empty());
  CHECK(WrongOf(good.substr(0, 20)) == "it is shorter than an empty table");
  CHECK(WrongOf("a" + good.substr(1)) == "it does not begin as a table of afo does");
  std::string changed = good;
  changed[9] = 1;
  CHECK(WrongOf(changed) == "its header is damaged");
  changed = good;
  changed[kServedHeaderBytes + 8] ^= 1;
  CHECK(WrongOf(changed) == "its rows are damaged");
  CHECK(WrongOf(File(3, 1, 2, rows)) == "it has rows of an unknown type");
  CHECK(WrongOf(File(0, 0, 2, rows)) == "its rows have an impossible width");
  CHECK(WrongOf(File(0, 5000, 2, rows)) == "its rows have an impossible width");
  CHECK(WrongOf(File(0, 1, 1ull << 60, rows)) == "it has more rows than a table can");
  CHECK(WrongOf(File(0, 1, 3, rows)) == "it has 60 bytes, and its header speaks of 72");
  CHECK(WrongOf(good.substr(0, good.size() - 1)) == "it has 59 bytes, and its header speaks of 60");
  CHECK(WrongOf(File(0, 1, 2, rows.substr(12) + rows.substr(0, 12))) == "its keys do not rise");
  CHECK(WrongOf(File(0, 1, 2, rows.substr(0, 12) + rows.substr(0, 12))) == "its keys do not rise");
}

TEST_CASE("whatever the bytes are, they are refused or every key of them is found") {
  testing::Random random(1);
  for (int input = 0; input < 3000; ++input) {
    CAPTURE(input);
    const auto type = static_cast<std::uint32_t>(random.Below(3)), dim = static_cast<std::uint32_t>(1 + random.Below(6));
    const std::size_t body = type == 0 ? 4 * dim : type == 1 ? 2 * dim : 4 + dim;
    const std::vector<std::int64_t> keys = random.Keys(random.Below(40));
    std::string rows;
    for (const std::int64_t key : keys) {
      Append(&rows, key);
      for (std::size_t i = 0; i < body; ++i) rows += static_cast<char>(random.Bits());
    }
    std::string written = static_cast<char>(random.Bits()) + File(type, dim, keys.size(), rows);
    if (input % 8 == 0) written.resize(random.Below(written.size()));
    for (std::uint64_t changes = random.Below(3); changes > 0 && !written.empty(); --changes) {
      written[random.Below(written.size())] = static_cast<char>(random.Bits());
    }
    testing::ServeFile(reinterpret_cast<const std::uint8_t*>(written.data()), written.size());  // aborts
    // Those with blocks, which are made of the first bytes.
    for (std::size_t i = 0; i < std::min<std::size_t>(10, written.size()); ++i) {
      written[i] = static_cast<char>(random.Bits() | (i == 0 ? 2 : 0));
    }
    testing::ServeFile(reinterpret_cast<const std::uint8_t*>(written.data()), written.size());
  }
}

}  // namespace
}  // namespace afo
