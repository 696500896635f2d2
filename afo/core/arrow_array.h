// A column of Arrow's C data interface: its rows, each null or some values one behind the other.
//
// Pointers are believed, and that a buffer is as long as its array says by `offset` and `length`, for the interface
// does not tell how long one is. Everything else is not: formats, numbers of buffers and children, lengths, offsets of
// lists and strings, indices of dictionaries. A buffer of strings is as long as its offsets say.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "afo/core/arrow_abi.h"

namespace afo {

// Of a value in Arrow. kNull: there are nothing but nulls. kText: strings and binaries; kLargeText: of 64-bit offsets.
enum class ArrowKind {
  kNull,
  kBool,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat,
  kDouble,
  kText,
  kLargeText,
};

// An array without children. What is wrong is said as the end of a sentence about it; "": nothing.
class ArrowFlat {
 public:
  // Refers to `array` and its buffers.
  [[nodiscard]] std::string Open(const ArrowSchema& schema, const ArrowArray& array);

  ArrowKind kind() const { return kind_; }
  std::int64_t length() const { return length_; }
  bool has_nulls() const { return kind_ == ArrowKind::kNull || validity_ != nullptr; }

  // Of value `i` of `length()`. The others below are of one that is not null.
  bool IsNull(std::int64_t i) const {
    return kind_ == ArrowKind::kNull || (validity_ != nullptr && !Bit(validity_, offset_ + i));
  }
  // Where its numbers begin, in no alignment; of booleans and strings there are none.
  const char* Numbers(std::int64_t i, std::size_t size) const {
    return values_ + static_cast<std::size_t>(offset_ + i) * size;
  }
  template <typename Number>
  Number At(std::int64_t i) const {
    Number number;
    std::memcpy(&number, Numbers(i, sizeof(Number)), sizeof(Number));
    return number;
  }
  bool BitAt(std::int64_t i) const { return Bit(values_, offset_ + i); }
  [[nodiscard]] std::string TextAt(std::int64_t i, std::string_view* text) const;

 private:
  static bool Bit(const char* bits, std::int64_t i) { return (bits[i >> 3] >> (i & 7) & 1) != 0; }

  ArrowKind kind_ = ArrowKind::kNull;
  std::int64_t length_ = 0, offset_ = 0;
  const char* validity_ = nullptr;  // null: no value is
  const char* values_ = nullptr;    // of strings their offsets
  const char* text_ = nullptr;
};

// The values of a row: places of `ArrowColumn`'s values.
struct ArrowRow {
  bool is_null = false;
  std::int64_t begin = 0, end = 0;
};

// A flat column, one of lists, or either with a dictionary.
class ArrowColumn {
 public:
  // Rows `first` to `first + rows` of a child of a struct array. Refers to it.
  [[nodiscard]] std::string Open(const ArrowSchema& schema, const ArrowArray& array, std::int64_t first,
                                 std::int64_t rows);

  std::int64_t rows() const { return rows_; }
  // Whether a row is one value, and the place of row 0 then.
  bool is_flat() const { return form_ == Form::kFlat; }
  std::int64_t first() const { return first_; }
  const ArrowFlat& values() const { return values_; }
  bool has_dictionary() const { return has_dictionary_; }
  bool has_null_values() const { return values_.has_nulls() || (has_dictionary_ && indices_.has_nulls()); }

  // Row `row` of `rows()`.
  [[nodiscard]] std::string RowAt(std::int64_t row, ArrowRow* found) const;
  // Which of `values()` stands at a place of a row; -1: it is null.
  [[nodiscard]] std::string Resolve(std::int64_t place, std::int64_t* value) const;

 private:
  enum class Form { kFlat, kList, kLargeList, kFixedList };

  std::string OpenList(std::string_view format, const ArrowSchema& schema, const ArrowArray& array);
  std::string OpenValues(const ArrowSchema& schema, const ArrowArray& array);
  std::int64_t OffsetAt(std::int64_t i) const;
  // Places that rows of lists may have.
  std::int64_t Places() const { return has_dictionary_ ? indices_.length() : values_.length(); }

  Form form_ = Form::kFlat;
  std::int64_t first_ = 0, rows_ = 0, size_ = 1;
  const char* validity_ = nullptr;  // of lists
  const char* offsets_ = nullptr;
  ArrowFlat values_, indices_;
  bool has_dictionary_ = false;
};

// What is wrong with an array's length, offset and buffers, of which it has so many; it may have children.
[[nodiscard]] std::string CheckArrowArray(const ArrowArray& array, std::int64_t buffers);

// A text of whoever made the batch, for an error: not too long, in ticks.
std::string QuotedText(const char* text);

}  // namespace afo
