// Files of served tables in the form of earlier exports, AFOROWS2 (served_layout.h).
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "afo/core/hash.h"
#include "afo/core/index.h"
#include "afo/core/served_layout.h"
#include "afo/core/snapshot.h"

namespace afo::testing {

inline std::string LinesOf(const ServedLayout& layout, const char* rows) {
  std::vector<PackedLine> lines(layout.lines);
  for (std::uint64_t number = 0; number < layout.header.count + layout.removed; ++number) {
    const bool is_row = number < layout.header.count;
    std::int64_t key;
    std::memcpy(&key, rows, sizeof(key));
    rows += is_row ? layout.header.stride() : sizeof(key);
    std::uint32_t at = HomeOf(HashOf(key), static_cast<std::uint32_t>(lines.size()));
    while (!PlaceIn(layout.shape(), &lines[at], TagOf(HashOf(key)), static_cast<std::uint32_t>(number))) {
      at = at + 1 == lines.size() ? 0 : at + 1;
    }
  }
  return {reinterpret_cast<const char*>(lines.data()), lines.size() * sizeof(PackedLine)};
}

// A file in that form of one in today's, with an index.
inline std::string Padded(const std::string& file) {
  const auto [today, wrong] = ParseServedLayout(file.data(), file.size());
  REQUIRE(wrong.empty());
  ServedLayout layout = today;
  layout.is_padded = true;
  layout.lines = LinesFor(static_cast<std::size_t>(layout.header.count + layout.removed));
  const char* rows = file.data() + today.rows_at();
  std::string body(rows, layout.header.count * layout.header.stride() + layout.removed * sizeof(std::int64_t));
  const std::string lines = LinesOf(layout, rows);
  body.resize(layout.index_at() - layout.rows_at());
  body += lines;
  body.resize(layout.sums_at() - layout.rows_at());
  BlockSums sums(layout.rows_at());
  sums.Add(body.data(), body.size());
  const std::string tail(reinterpret_cast<const char*>(sums.sums().data()), 4 * sums.sums().size());
  layout.sums_checksum = Crc32c(tail.data(), tail.size());
  return EncodeHeader(&layout) + body + tail;
}

}  // namespace afo::testing
