#include "afo/core/index.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace afo {
namespace {

// Keys that `lines` take at the highest load, 0.8.
std::size_t Capacity(std::size_t lines) { return lines * kLinePlaces * 4 / 5; }

}  // namespace

bool Index::Allocate(std::size_t lines) {
  if (lines > 0xffffffffull || !pages_.Grow(lines * sizeof(Line))) return false;
  pages_.Populate(lines * sizeof(Line));
  count_ = static_cast<std::uint32_t>(lines);
  return true;
}

bool Index::Prepare(std::size_t count) {
  *this = Index();
  return Allocate(LinesFor(count));
}

bool Index::Reserve(std::size_t count, const RowStore& rows) {
  const std::size_t wanted = size_ + count;
  if (count_ > 0 && wanted <= Capacity(count_)) return true;
  Index grown;
  if (!grown.Allocate(std::max<std::size_t>(LinesFor(wanted), 2 * static_cast<std::size_t>(count_)))) return false;
  // In the order of the rows: their headers come in a stream, and only the new lines at random.
  for (std::uint32_t row = 0; row < rows.end() && size_ > 0; ++row) {
    const RowHeader& header = *rows.header(row);
    if (!header.is_free()) grown.Insert(HashOf(header.key), row);
  }
  *this = std::move(grown);
  return true;
}

void Index::Insert(std::uint64_t hash, std::uint32_t row) {
  assert(size_ < Capacity(count_));
  std::uint32_t at = HomeOf(hash, count_);
  while (!PlaceIn(LineShape(), &lines()[at], TagOf(hash), row)) at = at + 1 == count_ ? 0 : at + 1;
  ++size_;
}

void Index::Remove(std::uint64_t hash, std::uint32_t row) {
  assert(size_ > 0);
  std::uint32_t at = HomeOf(hash, count_);
  for (;; at = at + 1 == count_ ? 0 : at + 1) {
    Line& line = lines()[at];
    for (unsigned found = Matches(line, TagOf(hash)); found != 0; found &= found - 1) {
      const int place = __builtin_ctz(found);
      if (line.rows[place] != row) continue;
      line.tags[place] = 0;
      --size_;
      return;
    }
    if (line.overflow != 0xff) --line.overflow;
  }
}

}  // namespace afo
