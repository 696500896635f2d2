// The values of one feature of a tf.Example, and their place in a column [rows, width] of std::string_view (kBytes), float or
// std::int64_t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace afo {

// The numbers are those of the fields of `Feature`.
enum class ListKind : std::uint8_t { kBytes = 1, kFloat = 2, kInt64 = 3 };

struct ListPlace {
  ListKind kind;
  void* column;
  std::int64_t row;
  std::int64_t width;
};

// Writes the first `width` values of a list, a message with repeated values, and counts all; nothing: it is none.
std::optional<std::int64_t> ReadList(std::string_view list, const ListPlace& to);

// The same of `size` bytes of packed values, if they are exactly `width`, and for what a batch mostly holds: floats, one
// integer below 2^56, one string. False for all else, which may still be right. Nothing behind `end` is read.
[[nodiscard]] bool ReadUsualList(const char* values, std::size_t size, const char* end, const ListPlace& to);

// Copies the values of `fill` [width] from place `from` on.
void FillUp(const void* fill, std::int64_t from, const ListPlace& to);

}  // namespace afo
