#include "afo/core/arrow_values.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace afo {
namespace {

std::string_view Allowed(TensorType type) {
  switch (type) {
    case TensorType::kInt64:
      return "integers or booleans";
    case TensorType::kInt32:
      return "integers of up to 32 bits or booleans";
    case TensorType::kFloat:
      return "float32, float64, integers or booleans";
    case TensorType::kBool:
      return "booleans";
    case TensorType::kString:
      return "strings or binaries";
  }
  return "";
}

std::string_view NameOf(ArrowKind kind) {
  constexpr std::string_view kNames[] = {"null",   "bool",  "int8",   "uint8",   "int16",   "uint16",  "int32",
                                         "uint32", "int64", "uint64", "float32", "float64", "strings", "strings"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool IsReal(ArrowKind kind) { return kind == ArrowKind::kFloat || kind == ArrowKind::kDouble; }
bool IsText(ArrowKind kind) { return kind == ArrowKind::kText || kind == ArrowKind::kLargeText; }

bool Takes(TensorType type, ArrowKind kind) {
  if (kind == ArrowKind::kNull) return true;
  if (type == TensorType::kString) return IsText(kind);
  if (type == TensorType::kBool) return kind == ArrowKind::kBool;
  if (IsText(kind)) return false;
  if (type == TensorType::kFloat) return true;
  return !IsReal(kind) && (type == TensorType::kInt64 || kind < ArrowKind::kInt64);
}

// Values that need no more than to be copied.
bool IsSame(TensorType type, ArrowKind kind) {
  if (type == TensorType::kInt64) return kind == ArrowKind::kInt64 || kind == ArrowKind::kUint64;
  return (type == TensorType::kInt32 && kind == ArrowKind::kInt32) ||
         (type == TensorType::kFloat && kind == ArrowKind::kFloat);
}

// Of one column, while it is read.
struct Reading {
  const ArrowColumn& column;
  const ColumnInput& input;

  std::int64_t width() const { return input.width.value_or(1); }
};

std::string Absent(std::int64_t row) {
  return "has a null in row " + std::to_string(row) +
         ", and the model does not say what stands for it: give a value, or export it again if its export is an older "
         "one";
}

std::string OtherLength(const Reading& reading, std::int64_t row, std::int64_t values) {
  const std::int64_t width = reading.width();
  return "has " + std::to_string(values) + (values == 1 ? " value" : " values") + " in row " + std::to_string(row) +
         " where " + std::to_string(width) + (width == 1 ? " is read" : " are read");
}

// Gives a row its values: `put(k, value)` one of `column.values()`, `stand(k, from)` that of the fill at `from`, which
// is asked for only where there is a fill. Returns what is wrong.
template <typename Put, typename Stand>
std::string FillRow(const Reading& reading, std::int64_t row, const Put& put, const Stand& stand) {
  ArrowRow found;
  if (std::string wrong = reading.column.RowAt(row, &found); !wrong.empty()) return wrong;
  const ColumnFill* fill = reading.input.fill;
  const std::int64_t width = reading.width();
  if (found.is_null && fill == nullptr) return Absent(row);
  const std::int64_t count = found.is_null ? 0 : found.end - found.begin;
  if (!found.is_null && count != width && (fill == nullptr || !fill->any_length)) {
    return OtherLength(reading, row, count);
  }
  for (std::int64_t k = 0; k < std::min(count, width); ++k) {
    std::int64_t value;
    if (std::string wrong = reading.column.Resolve(found.begin + k, &value); !wrong.empty()) return wrong;
    if (value < 0 && fill == nullptr) return Absent(row);
    // As in Parquet, a null within a list is padding.
    if (value < 0) {
      stand(k, 0);
    } else if (std::string wrong = put(k, value); !wrong.empty()) {
      return wrong;
    }
  }
  for (std::int64_t k = count; k < width; ++k) stand(k, k);
  return "";
}

template <typename Put, typename Stand>
std::string FillRows(const Reading& reading, const Put& put, const Stand& stand) {
  const std::int64_t width = reading.width();
  for (std::int64_t row = 0; row < reading.column.rows(); ++row) {
    const auto put_here = [&](std::int64_t k, std::int64_t value) { return put(row * width + k, value); };
    const auto stand_here = [&](std::int64_t k, std::int64_t from) { stand(row * width + k, from); };
    if (std::string wrong = FillRow(reading, row, put_here, stand_here); !wrong.empty()) return wrong;
  }
  return "";
}

std::string ReadStrings(const Reading& reading, RequestTensor* tensor) {
  std::vector<std::string_view>& strings = tensor->strings;
  strings.resize(static_cast<std::size_t>(reading.column.rows() * reading.width()));
  const auto put = [&](std::int64_t to, std::int64_t value) {
    return reading.column.values().TextAt(value, &strings[static_cast<std::size_t>(to)]);
  };
  const auto stand = [&](std::int64_t to, std::int64_t from) {
    strings[static_cast<std::size_t>(to)] = reading.input.fill->strings[static_cast<std::size_t>(from)];
  };
  return FillRows(reading, put, stand);
}

// `get(value)`: one of `column.values()`, of any type of numbers.
template <typename To, typename Get>
std::string ReadNumbers(const Reading& reading, const Get& get, RequestTensor* tensor) {
  using From = decltype(get(0));
  tensor->decoded.resize(static_cast<std::size_t>(reading.column.rows() * reading.width()) * sizeof(To));
  char* const to = tensor->decoded.data();
  const auto put = [&](std::int64_t place, std::int64_t value) -> std::string {
    const From from = get(value);
    if constexpr (std::is_same_v<To, std::int32_t> && std::is_same_v<From, std::uint32_t>) {
      if (from > INT32_MAX) return "has the value " + std::to_string(from) + ", which no int32 is";
    }
    const auto number = static_cast<To>(from);
    std::memcpy(to + place * static_cast<std::int64_t>(sizeof(To)), &number, sizeof(To));
    return "";
  };
  const auto stand = [&](std::int64_t place, std::int64_t from) {
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(To));
    std::memcpy(to + place * kSize, reading.input.fill->numbers.data() + from * kSize, sizeof(To));
  };
  std::string wrong = FillRows(reading, put, stand);
  tensor->numbers = {tensor->decoded.data(), tensor->decoded.size()};
  return wrong;
}

template <typename To>
std::string ReadNumbersAs(const Reading& reading, RequestTensor* tensor) {
  const ArrowFlat& values = reading.column.values();
  const auto read = [&]<typename From>(From) {
    return ReadNumbers<To>(reading, [&](std::int64_t value) { return values.At<From>(value); }, tensor);
  };
  switch (values.kind()) {
    case ArrowKind::kInt8:
      return read(std::int8_t{});
    case ArrowKind::kUint8:
      return read(std::uint8_t{});
    case ArrowKind::kInt16:
      return read(std::int16_t{});
    case ArrowKind::kUint16:
      return read(std::uint16_t{});
    case ArrowKind::kInt32:
      return read(std::int32_t{});
    case ArrowKind::kUint32:
      return read(std::uint32_t{});
    case ArrowKind::kInt64:
      return read(std::int64_t{});
    case ArrowKind::kUint64:
      return read(std::uint64_t{});
    case ArrowKind::kFloat:
      return read(float{});
    case ArrowKind::kDouble:
      return read(double{});
    default:
      // Of nulls no bit is asked for.
      return ReadNumbers<To>(reading, [&](std::int64_t value) { return values.BitAt(value); }, tensor);
  }
}

// The place from which the values of all rows follow one another, each with its whole width; -1: they do not, or
// something is wrong, which is said by who reads them one by one.
std::int64_t Contiguous(const Reading& reading) {
  const ArrowColumn& column = reading.column;
  if (column.has_null_values() || column.has_dictionary()) return -1;
  if (column.is_flat()) return reading.width() == 1 ? column.first() : -1;
  std::int64_t begin = 0, end = 0;
  for (std::int64_t row = 0; row < column.rows(); ++row) {
    ArrowRow found;
    if (!column.RowAt(row, &found).empty() || found.is_null || found.end - found.begin != reading.width()) return -1;
    if (row == 0) begin = end = found.begin;
    if (found.begin != end) return -1;
    end = found.end;
  }
  return begin;
}

std::string ReadTensor(const Reading& reading, RequestTensor* tensor) {
  const TensorType type = reading.input.type;
  if (type == TensorType::kString) return ReadStrings(reading, tensor);
  if (IsSame(type, reading.column.values().kind())) {
    if (const std::int64_t begin = Contiguous(reading); begin >= 0) {
      const std::size_t size = static_cast<std::size_t>(reading.column.rows() * reading.width()) * SizeOf(type);
      if (size > 0) tensor->numbers = {reading.column.values().Numbers(begin, SizeOf(type)), size};
      return "";
    }
  }
  switch (type) {
    case TensorType::kFloat:
      return ReadNumbersAs<float>(reading, tensor);
    case TensorType::kInt32:
      return ReadNumbersAs<std::int32_t>(reading, tensor);
    case TensorType::kInt64:
      return ReadNumbersAs<std::int64_t>(reading, tensor);
    default:
      return ReadNumbersAs<bool>(reading, tensor);
  }
}

}  // namespace

std::string ReadArrowValues(const ArrowColumn& column, const ColumnInput& input, RequestTensor* tensor) {
  const ArrowKind kind = column.values().kind();
  if (!Takes(input.type, kind)) {
    return "holds " + std::string(NameOf(kind)) + "; the model takes " + std::string(NameOf(input.type)) + ": " +
           std::string(Allowed(input.type));
  }
  return ReadTensor({column, input}, tensor);
}

}  // namespace afo
