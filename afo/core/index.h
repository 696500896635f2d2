// From a key to the number of its row. The keys themselves lie in the rows' headers, which a lookup needs next anyway.
//
//   line := { 12 tags | overflow | 3 unused | 12 row numbers }, 64 bytes: one line of the cache
//
// A key is in its home line or behind it: it takes the first line with a free place. `overflow` counts the keys that
// went past a full line, so a search ends at the first line that nobody went past, and a removal leaves no tombstone:
// it takes back its count (a count of 255 stays, which costs steps and no answer). A tag of 8 bits is compared before
// a row is looked at; 0 means free, so every 64-bit key is allowed.
// At a load of 0.8 a line costs 6.7 bytes a key and a search 1.08 lines.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

#include "afo/core/hash.h"
#include "afo/core/memory.h"
#include "afo/core/row_store.h"

namespace afo {

constexpr int kLinePlaces = 12;

struct alignas(64) Line {
  std::uint8_t tags[kLinePlaces];
  std::uint8_t overflow;
  std::uint8_t unused[3];
  std::uint32_t rows[kLinePlaces];
};
static_assert(sizeof(Line) == 64, "one line of the cache");
static_assert(offsetof(Line, overflow) == kLinePlaces, "a load of 16 bytes takes the tags; the mask drops the rest");

// A bit for each place of a line that has this tag.
inline unsigned Matches(const Line& line, std::uint8_t tag) {
  const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(line.tags));
  const __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8(static_cast<char>(tag)));
  return static_cast<unsigned>(_mm_movemask_epi8(equal)) & ((1u << kLinePlaces) - 1);
}

// Lines that `keys` keys take, at a load of 0.8.
constexpr std::size_t LinesFor(std::size_t keys) { return keys * 5 / (kLinePlaces * 4) + 1; }

// What is where in a line. Those of files are of other shapes, too (packed_line.h).
struct LineShape {
  static unsigned Matches(const Line& line, std::uint8_t tag) { return afo::Matches(line, tag); }
  static std::uint32_t row(const Line& line, int place) { return line.rows[place]; }
  static bool is_passed(const Line& line) { return line.overflow != 0; }
  static void Pass(Line* line) {
    if (line->overflow != 0xff) ++line->overflow;
  }
  static void Put(Line* line, int place, std::uint8_t tag, std::uint32_t row) {
    line->tags[place] = tag;
    line->rows[place] = row;
  }
};

// Puts a row into a line that has a free place; counts a key that goes past where there is none. Whether it was put.
template <typename Shape, typename AnyLine>
bool PlaceIn(const Shape& shape, AnyLine* line, std::uint8_t tag, std::uint32_t row) {
  const unsigned free = shape.Matches(*line, 0);
  if (free == 0) {
    shape.Pass(line);
    return false;
  }
  shape.Put(line, __builtin_ctz(free), tag, row);
  return true;
}

// The row of a key with this hash in an index of `count` lines; kNoRow when none. `line_at(n)` is a reference to line
// n, `is(row)` whether the key is that of a row in it.
template <typename Shape, typename LineAt, typename Is>
std::uint32_t FindRow(const Shape& shape, std::uint64_t hash, std::uint32_t count, const LineAt& line_at,
                      const Is& is) {
  const std::uint32_t home = HomeOf(hash, count);
  std::uint32_t at = home;
  // Once around at most: keys that come and go may leave a few lines where each has been passed by a key.
  do {
    const auto& line = line_at(at);
    for (unsigned found = shape.Matches(line, TagOf(hash)); found != 0; found &= found - 1) {
      const std::uint32_t row = shape.row(line, __builtin_ctz(found));
      if (is(row)) return row;
    }
    if (!shape.is_passed(line)) return kNoRow;
    at = at + 1 == count ? 0 : at + 1;
  } while (at != home);
  return kNoRow;
}

// Not thread-safe: the shard's lock is held, shared for `Find`.
class Index {
 public:
  const Line* home(std::uint64_t hash) const { return lines() + HomeOf(hash, count_); }

  // The first row of the home line that may be the key's; kNoRow when none. A guess, to fetch memory early.
  std::uint32_t Guess(std::uint64_t hash) const {
    const unsigned found = Matches(*home(hash), TagOf(hash));
    return found == 0 ? kNoRow : home(hash)->rows[__builtin_ctz(found)];
  }

  // `rows.key(row)` is the key of a row that was inserted.
  template <typename Rows>
  std::uint32_t Find(std::int64_t key, std::uint64_t hash, const Rows& rows) const {
    return FindRow(
        LineShape(), hash, count_, [this](std::uint32_t at) -> const Line& { return lines()[at]; },
        [&](std::uint32_t row) { return rows.key(row) == key; });
  }

  // Empty, with room for `count` keys; false when the system has no more memory.
  [[nodiscard]] bool Prepare(std::size_t count);
  // Room for `count` keys more; false when the system has no more memory. Reads all rows when it grows.
  [[nodiscard]] bool Reserve(std::size_t count, const RowStore& rows);
  // Preconditions: the key is not there, and room is.
  void Insert(std::uint64_t hash, std::uint32_t row);
  // Precondition: the row is there.
  void Remove(std::uint64_t hash, std::uint32_t row);

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(Line); }

 private:
  [[nodiscard]] bool Allocate(std::size_t lines);
  Line* lines() const { return reinterpret_cast<Line*>(pages_.data()); }

  Pages pages_;
  std::uint32_t count_ = 0;
  std::size_t size_ = 0;
};

}  // namespace afo
