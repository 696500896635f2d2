// Bytes as somebody may hand them to a process that serves a model, as the file of a table. They are refused, or a table
// comes of them that answers for every key of its rows and for no other; anything else ends the program. fuzz.sh has
// libFuzzer look for such bytes, the unit tests (served_table_test.cc) change what was written.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "afo/core/index.h"
#include "afo/core/indexed_table.h"
#include "afo/core/served_file.h"
#include "afo/core/served_layout.h"
#include "afo/core/served_table.h"
#include "afo/core/snapshot.h"

namespace afo::testing {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void Sign(std::string* file) {
  if (file->size() < kServedHeaderBytes + kServedTrailerBytes) return;
  const std::uint32_t header = Crc32c(file->data(), kServedHeaderBytes - 4);
  std::memcpy(file->data() + kServedHeaderBytes - 4, &header, sizeof(header));
  const std::size_t rows = file->size() - kServedHeaderBytes - kServedTrailerBytes;
  const std::uint32_t body = Crc32c(file->data() + kServedHeaderBytes, rows);
  std::memcpy(file->data() + file->size() - kServedTrailerBytes, &body, sizeof(body));
}

// A file with blocks, of few bytes: numbers of the header, then what fills rows and lines, over and over. Damaged, any
// byte is another, or what is behind it is missing.
std::string Unfold(const std::uint8_t* data, std::size_t size, bool is_damaged) {
  const auto at = [&](std::size_t place) { return size == 0 ? std::uint8_t{0} : data[place % size]; };
  ServedLayout layout{.header = {.type = static_cast<RowType>(at(0) % 3),
                                 .dim = 1 + at(1) % 40,
                                 .count = at(2) % 200u,
                                 .absent = static_cast<float>(at(3))},
                      .lines = at(4) % 100u,
                      .is_padded = at(1) >= 128};
  if (at(0) >= 128) {
    layout.removed = at(3) % 100u;
    layout.parent = 1;
    layout.parent_path = std::string(1 + at(2), 'p');
  }
  std::string body(layout.sums_at() - layout.rows_at(), '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(at(5 + i));
  BlockSums sums(layout.rows_at());
  sums.Add(body.data(), body.size());
  sums.Finish();
  const auto* bytes = reinterpret_cast<const char*>(sums.sums().data());
  layout.sums_checksum = Crc32c(bytes, sums.sums().size() * sizeof(std::uint32_t));
  std::string file = EncodeHeader(&layout) + body + std::string(bytes, sums.sums().size() * sizeof(std::uint32_t));
  if (!is_damaged) return file;
  const std::size_t place = static_cast<std::size_t>(at(5) << 8 | at(6)) % (at(8) % 2 == 0 ? 64 : file.size());
  if (at(7) == 0) return file.substr(0, place);
  file[place] ^= static_cast<char>(at(7));
  return file;
}

// Looks keys up. Weights are those of a row with the key, or the absent ones, whatever the lines say.
void AskIndexed(const IndexedTable& table, const ServedHeader& header, const std::uint8_t* rows) {
  std::vector<std::int64_t> keys{0};
  for (std::uint64_t row = 0; row < header.count; ++row) {
    keys.push_back(0);
    std::memcpy(&keys.back(), rows + row * header.stride(), sizeof(std::int64_t));
  }
  const auto dim = static_cast<std::size_t>(header.dim);
  std::vector<float> weights(keys.size() * dim), row_weights(dim), absent(dim, header.absent);
  if (!table.Lookup(keys.data(), static_cast<std::int64_t>(keys.size()), weights.data()).empty()) return;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto is = [&](const std::vector<float>& other) {
      return std::memcmp(&weights[i * dim], other.data(), dim * sizeof(float)) == 0;
    };
    bool known = is(absent);
    for (std::uint64_t row = 0; row < header.count && !known; ++row) {
      if (std::memcmp(rows + row * header.stride(), &keys[i], sizeof(std::int64_t)) != 0) continue;
      DecodeRow(header, rows + row * header.stride(), row_weights.data());
      known = is(row_weights);
    }
    Require(known);
  }
}

void ServeBlocks(const std::string& file) {
  if (file.size() < kServedHeaderBytes) return;
  const auto [layout, wrong] = ParseServedLayout(file.data(), file.size());
  if (!wrong.empty()) return;
  const ReadAt read = [&file](std::uint64_t offset, char* to, std::size_t size) {
    Require(offset + size <= file.size());
    std::copy_n(file.data() + offset, size, to);
    return std::string();
  };
  static_cast<void>(ServedFile(layout.header, layout.rows_at(), read).Build(layout));
  IndexedTable table(layout, "f");
  if (!table.ReadSums(read).empty()) return;
  Pages pages;
  Require(pages.Grow(file.size()));
  std::memcpy(pages.data(), file.data(), file.size());
  table.Map(pages.data());
  AskIndexed(table, layout.header, pages.data() + layout.rows_at());
  if (!table.Copy(read, [] { return false; }).empty()) return;
  AskIndexed(table, layout.header, pages.data() + layout.rows_at());
}

}  // namespace

// The first byte: whether checksums are made to fit, so that what lies behind them is reached, and which form it is.
void ServeFile(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  if (data[0] & 2) return ServeBlocks(Unfold(data + 1, size - 1, (data[0] & 1) == 0));
  std::string file(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 1) Sign(&file);
  const auto [header, wrong] = ParseServedHeader(file.data(), file.size());
  if (!wrong.empty()) return;
  ServedTable table(header);
  Require(table.Reserve());
  Require(kServedHeaderBytes + table.row_bytes() + kServedTrailerBytes == file.size());
  std::memcpy(table.rows(), file.data() + kServedHeaderBytes, table.row_bytes());
  std::uint32_t checksum;
  std::memcpy(&checksum, file.data() + file.size() - kServedTrailerBytes, sizeof(checksum));
  ServedFile in_file(header, kServedHeaderBytes, [&file](std::uint64_t offset, char* to, std::size_t size) {
    Require(offset + size <= file.size());
    std::copy_n(file.data() + offset, size, to);
    return std::string();
  });
  const std::string found = table.Build(checksum);
  Require(in_file.Build(checksum) == found);
  if (!found.empty()) return;
  const auto count = static_cast<std::uint32_t>(header.count);
  std::vector<std::int64_t> keys;
  for (std::uint32_t row = 0; row < count; ++row) keys.push_back(table.key(row));
  // Not there: beyond the last, unless that is the last there can be.
  const bool room = count == 0 || keys.back() != INT64_MAX;
  if (room) keys.push_back(count == 0 ? 0 : keys.back() + 1);
  const auto dim = static_cast<std::size_t>(header.dim);
  std::vector<float> weights(keys.size() * dim);
  Require(table.Lookup(keys.data(), static_cast<std::int64_t>(keys.size()), weights.data()).empty());
  std::vector<float> same(weights.size());
  Require(in_file.Lookup(keys.data(), static_cast<std::int64_t>(keys.size()), same.data()).empty());
  Require(weights.empty() || std::memcmp(same.data(), weights.data(), weights.size() * sizeof(float)) == 0);
  if (room) Require(std::memcmp(&weights[count * dim], &header.absent, sizeof(float)) == 0);
  if (header.type != RowType::kFloat32) return;
  for (std::uint32_t row = 0; row < count; ++row) {
    Require(std::memcmp(&weights[row * dim], table.rows() + row * header.stride() + 8, dim * sizeof(float)) == 0);
  }
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::ServeFile(data, size);
  return 0;
}
#endif
