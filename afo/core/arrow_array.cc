#include "afo/core/arrow_array.h"

#include <charconv>

namespace afo {
namespace {

// No memory holds as many values; so no place in a buffer is a number that overflows.
constexpr std::int64_t kMostLength = std::int64_t{1} << 47;

struct Format {
  char letter;
  ArrowKind kind;
};

constexpr Format kFormats[] = {
    {'n', ArrowKind::kNull},  {'b', ArrowKind::kBool},   {'c', ArrowKind::kInt8},      {'C', ArrowKind::kUint8},
    {'s', ArrowKind::kInt16}, {'S', ArrowKind::kUint16}, {'i', ArrowKind::kInt32},     {'I', ArrowKind::kUint32},
    {'l', ArrowKind::kInt64}, {'L', ArrowKind::kUint64}, {'f', ArrowKind::kFloat},     {'g', ArrowKind::kDouble},
    {'u', ArrowKind::kText},  {'z', ArrowKind::kText},   {'U', ArrowKind::kLargeText}, {'Z', ArrowKind::kLargeText},
};

bool FindKind(std::string_view format, ArrowKind* kind) {
  for (const Format& each : kFormats) {
    if (format.size() == 1 && format[0] == each.letter) {
      *kind = each.kind;
      return true;
    }
  }
  return false;
}

std::string UnknownFormat(const char* format) {
  return "has the Arrow format " + QuotedText(format) +
         "; allowed are numbers of 8 to 64 bits but float16, booleans, strings and binaries without views, lists of"
         " these, and dictionaries of them";
}

std::string Number(std::int64_t number) { return std::to_string(number); }

std::string CheckChildren(const ArrowSchema& schema, const ArrowArray& array, std::int64_t wanted) {
  if (schema.n_children != wanted || array.n_children != wanted) {
    return "has " + Number(schema.n_children) + " children by its schema and " + Number(array.n_children) +
           " by its array where its format has " + Number(wanted);
  }
  if (wanted > 0 && (schema.children == nullptr || array.children == nullptr || schema.children[0] == nullptr ||
                     array.children[0] == nullptr)) {
    return "has a child that is null";
  }
  return "";
}

// The bits that say which values are there; null: all are.
std::string ReadValidity(const ArrowArray& array, const char** validity) {
  *validity = array.null_count == 0 ? nullptr : static_cast<const char*>(array.buffers[0]);
  if (array.null_count > 0 && *validity == nullptr && array.length > 0) {
    return "has " + Number(array.null_count) + " nulls and no validity buffer";
  }
  return "";
}

bool IsInteger(ArrowKind kind) { return kind >= ArrowKind::kInt8 && kind <= ArrowKind::kUint64; }

std::int64_t IndexAt(const ArrowFlat& indices, std::int64_t place) {
  switch (indices.kind()) {
    case ArrowKind::kInt8:
      return indices.At<std::int8_t>(place);
    case ArrowKind::kUint8:
      return indices.At<std::uint8_t>(place);
    case ArrowKind::kInt16:
      return indices.At<std::int16_t>(place);
    case ArrowKind::kUint16:
      return indices.At<std::uint16_t>(place);
    case ArrowKind::kInt32:
      return indices.At<std::int32_t>(place);
    case ArrowKind::kUint32:
      return indices.At<std::uint32_t>(place);
    default:
      return indices.At<std::int64_t>(place);  // beyond it an unsigned one is negative, and so refused
  }
}

}  // namespace

std::string QuotedText(const char* text) {
  constexpr std::size_t kMost = 80;
  const std::string_view whole(text == nullptr ? "" : text);
  std::string quoted("`");
  return quoted.append(whole.substr(0, kMost)).append(whole.size() > kMost ? "…`" : "`");
}

std::string CheckArrowArray(const ArrowArray& array, std::int64_t buffers) {
  if (array.length < 0 || array.offset < 0 || array.length > kMostLength || array.offset > kMostLength) {
    return "has the length " + Number(array.length) + " and the offset " + Number(array.offset) +
           ", which no array has";
  }
  if (array.null_count < -1 || array.null_count > array.length) {
    return "has the null_count " + Number(array.null_count) + " where its length is " + Number(array.length);
  }
  if (array.n_buffers != buffers) {
    return "has " + Number(array.n_buffers) + " buffers where its format has " + Number(buffers);
  }
  return buffers > 0 && array.buffers == nullptr ? "has no buffers" : "";
}

std::string ArrowFlat::Open(const ArrowSchema& schema, const ArrowArray& array) {
  if (schema.format == nullptr || !FindKind(schema.format, &kind_)) return UnknownFormat(schema.format);
  if (std::string wrong = CheckChildren(schema, array, 0); !wrong.empty()) return wrong;
  const bool is_text = kind_ == ArrowKind::kText || kind_ == ArrowKind::kLargeText;
  const std::int64_t buffers = kind_ == ArrowKind::kNull ? 0 : is_text ? 3 : 2;
  if (std::string wrong = CheckArrowArray(array, buffers); !wrong.empty()) return wrong;
  length_ = array.length;
  offset_ = array.offset;
  if (buffers == 0) return "";
  if (std::string wrong = ReadValidity(array, &validity_); !wrong.empty()) return wrong;
  values_ = static_cast<const char*>(array.buffers[1]);
  if (is_text) text_ = static_cast<const char*>(array.buffers[2]);
  if (values_ == nullptr && length_ > 0) return "has no buffer of " + std::string(is_text ? "offsets" : "values");
  return "";
}

std::string ArrowFlat::TextAt(std::int64_t i, std::string_view* text) const {
  const bool is_large = kind_ == ArrowKind::kLargeText;
  const std::int64_t begin = is_large ? At<std::int64_t>(i) : At<std::int32_t>(i);
  const std::int64_t end = is_large ? At<std::int64_t>(i + 1) : At<std::int32_t>(i + 1);
  if (begin < 0 || end < begin || end > kMostLength) {
    return "has a string from byte " + Number(begin) + " to byte " + Number(end);
  }
  if (text_ == nullptr && end > begin) return "has no buffer of bytes";
  *text = end == begin ? std::string_view() : std::string_view(text_ + begin, static_cast<std::size_t>(end - begin));
  return "";
}

std::string ArrowColumn::Open(const ArrowSchema& schema, const ArrowArray& array, std::int64_t first,
                              std::int64_t rows) {
  first_ = first;
  rows_ = rows;
  const std::string_view format(schema.format == nullptr ? "" : schema.format);
  std::string wrong = format.starts_with('+') ? OpenList(format, schema, array) : OpenValues(schema, array);
  if (wrong.empty() && (array.length < first || array.length - first < rows)) {
    return "has " + Number(array.length) + " rows where the batch has " + Number(rows) + " from row " + Number(first) +
           " on";
  }
  return wrong;
}

std::string ArrowColumn::OpenList(std::string_view format, const ArrowSchema& schema, const ArrowArray& array) {
  const std::string_view fixed = "+w:";
  if (format == "+l") form_ = Form::kList;
  if (format == "+L") form_ = Form::kLargeList;
  if (format.starts_with(fixed)) {
    const char* const end = format.data() + format.size();
    const auto [stopped, error] = std::from_chars(format.data() + fixed.size(), end, size_);
    if (error == std::errc() && stopped == end && size_ >= 0 && size_ <= INT32_MAX) form_ = Form::kFixedList;
  }
  if (form_ == Form::kFlat) return UnknownFormat(schema.format);
  if (schema.dictionary != nullptr || array.dictionary != nullptr) return "has a dictionary of lists";
  if (std::string wrong = CheckChildren(schema, array, 1); !wrong.empty()) return wrong;
  if (std::string wrong = CheckArrowArray(array, form_ == Form::kFixedList ? 1 : 2); !wrong.empty()) return wrong;
  if (std::string wrong = ReadValidity(array, &validity_); !wrong.empty()) return wrong;
  if (form_ != Form::kFixedList) {
    offsets_ = static_cast<const char*>(array.buffers[1]);
    if (offsets_ == nullptr && array.length > 0) return "has no buffer of offsets";
  }
  first_ += array.offset;
  return OpenValues(*schema.children[0], *array.children[0]);
}

std::string ArrowColumn::OpenValues(const ArrowSchema& schema, const ArrowArray& array) {
  if ((schema.dictionary == nullptr) != (array.dictionary == nullptr)) {
    return "has a dictionary in its schema or in its array alone";
  }
  has_dictionary_ = schema.dictionary != nullptr;
  if (!has_dictionary_) return values_.Open(schema, array);
  if (schema.dictionary->dictionary != nullptr) return "has a dictionary of dictionaries";
  if (std::string wrong = indices_.Open(schema, array); !wrong.empty()) return wrong;
  if (!IsInteger(indices_.kind())) return "has a dictionary with the Arrow format " + QuotedText(schema.format);
  return values_.Open(*schema.dictionary, *array.dictionary);
}

std::int64_t ArrowColumn::OffsetAt(std::int64_t i) const {
  if (form_ == Form::kLargeList) {
    std::int64_t offset;
    std::memcpy(&offset, offsets_ + i * 8, sizeof(offset));
    return offset;
  }
  std::int32_t offset;
  std::memcpy(&offset, offsets_ + i * 4, sizeof(offset));
  return offset;
}

std::string ArrowColumn::RowAt(std::int64_t row, ArrowRow* found) const {
  const std::int64_t i = first_ + row;
  if (form_ == Form::kFlat) {
    std::int64_t value;
    if (std::string wrong = Resolve(i, &value); !wrong.empty()) return wrong;
    *found = {value < 0, i, i + 1};
    return "";
  }
  if (validity_ != nullptr && (validity_[i >> 3] >> (i & 7) & 1) == 0) {
    *found = {true, 0, 0};
    return "";
  }
  if (form_ == Form::kFixedList) {
    if (size_ > 0 && i >= Places() / size_) {
      return "has lists of " + Number(size_) + " and " + Number(Places()) + " values, too few for row " + Number(row);
    }
    *found = {false, i * size_, i * size_ + size_};
    return "";
  }
  *found = {false, OffsetAt(i), OffsetAt(i + 1)};
  if (found->begin < 0 || found->end < found->begin || found->end > Places()) {
    return "has in row " + Number(row) + " the values " + Number(found->begin) + " to " + Number(found->end) + " of " +
           Number(Places());
  }
  return "";
}

std::string ArrowColumn::Resolve(std::int64_t place, std::int64_t* value) const {
  *value = -1;
  if (has_dictionary_) {
    if (indices_.IsNull(place)) return "";
    const std::int64_t index = IndexAt(indices_, place);
    if (index < 0 || index >= values_.length()) {
      return "has the index " + Number(index) + " of a dictionary of " + Number(values_.length());
    }
    place = index;
  }
  if (!values_.IsNull(place)) *value = place;
  return "";
}

}  // namespace afo
