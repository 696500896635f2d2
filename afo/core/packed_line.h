// Lines of an index that is written once, into a file (served_layout.h): as those of index.h, with numbers of as few
// bits as the highest row has, so that more of them are in a line.
//
//   line := { places tags | overflow | unused | places row numbers of `bits` bits }, 64 bytes: one line of the cache
//
// The last number ends with the line; each begins at the lower bits of its first byte. Numbers of 32 bits leave 12
// places, and the bytes are those of an index in memory.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace afo {

struct alignas(64) PackedLine {
  std::uint8_t bytes[64];
};
static_assert(sizeof(PackedLine) == 64, "one line of the cache");

class PackedShape {
 public:
  // For row numbers below `rows`, of which there are 2^32 at most.
  static PackedShape Of(std::uint64_t rows) {
    return PackedShape(std::max(kLeastBits, static_cast<int>(std::bit_width(rows == 0 ? 0 : rows - 1))));
  }
  // `bits` of a number: 8 to 32.
  explicit PackedShape(int bits)
      : bits_(bits),
        places_((kLineBits - kTagBits) / (kTagBits + bits)),
        first_end_(kLineBits - bits * (places_ - 1)),
        of_places_(static_cast<unsigned>((std::uint64_t{1} << places_) - 1)),
        of_number_((std::uint64_t{1} << bits) - 1) {}

  int places() const { return places_; }

  // Lines that `keys` keys take. The more places, the fuller they are: of any shape keys go past a fifth at most.
  std::size_t LinesFor(std::uint64_t keys) const {
    return static_cast<std::size_t>(keys * 11 / static_cast<std::uint64_t>(10 * places_ - 20) + 1);
  }

  // A bit for each place that has this tag.
  unsigned Matches(const PackedLine& line, std::uint8_t tag) const {
    const auto* tags = reinterpret_cast<const __m128i*>(line.bytes);
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(tag));
    const auto low = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(tags), wanted)));
    const auto high = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(tags + 1), wanted)));
    return (low | high << 16) & of_places_;
  }

  std::uint32_t row(const PackedLine& line, int place) const {
    const Word at = WordOf(place);
    std::uint64_t word;
    std::memcpy(&word, line.bytes + at.byte, sizeof(word));
    return static_cast<std::uint32_t>(word >> at.shift & of_number_);
  }

  bool is_passed(const PackedLine& line) const { return line.bytes[places_] != 0; }
  void Pass(PackedLine* line) const { line->bytes[places_] = 1; }

  // Precondition: the place is free, and `row` has no more bits than this shape gives it.
  void Put(PackedLine* line, int place, std::uint8_t tag, std::uint32_t row) const {
    line->bytes[place] = tag;
    const Word at = WordOf(place);
    std::uint64_t word;
    std::memcpy(&word, line->bytes + at.byte, sizeof(word));
    word |= std::uint64_t{row} << at.shift;
    std::memcpy(line->bytes + at.byte, &word, sizeof(word));
  }

 private:
  static constexpr int kLineBits = 8 * sizeof(PackedLine), kTagBits = 8;
  // 31 places: their tags are compared by two loads of 16 bytes.
  static constexpr int kLeastBits = 8;

  // 8 bytes of the line that end with the last byte of a number, and where in them it begins.
  struct Word {
    unsigned byte, shift;
  };
  Word WordOf(int place) const {
    const auto end = static_cast<unsigned>(first_end_ + bits_ * place);
    const unsigned byte = (end + 7) / 8 - sizeof(std::uint64_t);
    return {.byte = byte, .shift = end - static_cast<unsigned>(bits_) - 8 * byte};
  }

  int bits_;
  int places_;
  // The bit behind the first number.
  int first_end_;
  unsigned of_places_;
  std::uint64_t of_number_;
};

}  // namespace afo
