#include "afo/core/feature_list.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "afo/core/wire.h"

namespace afo {
namespace {

template <typename Value>
Value* At(const ListPlace& to) {
  return static_cast<Value*>(to.column) + to.row * to.width;
}

// Puts the values of one list where they belong, the first `width` of them, and counts all.
template <typename Value>
class Values {
 public:
  explicit Values(const ListPlace& to) : to_(At<Value>(to)), width_(to.width) {}

  void Add(Value value) {
    if (count_ < width_) to_[count_] = value;
    ++count_;
  }
  std::int64_t count() const { return count_; }

 private:
  Value* to_;
  std::int64_t width_;
  std::int64_t count_ = 0;
};

bool ReadOne(WireReader* reader, WireType type, Values<std::int64_t>* values) {
  std::uint64_t value;
  if (type != WireType::kVarint || !reader->Varint(&value)) return false;
  values->Add(static_cast<std::int64_t>(value));
  return true;
}

bool ReadOne(WireReader* reader, WireType type, Values<float>* values) {
  float value;
  if (type != WireType::kFixed32 || !reader->Float(&value)) return false;
  values->Add(value);
  return true;
}

bool ReadPacked(std::string_view packed, Values<std::int64_t>* values) {
  WireReader reader(packed);
  while (!reader.AtEnd()) {
    std::uint64_t value;
    if (!reader.Varint(&value)) return false;
    values->Add(static_cast<std::int64_t>(value));
  }
  return true;
}

bool ReadPacked(std::string_view packed, Values<float>* values) {
  WireReader reader(packed);
  while (!reader.AtEnd()) {
    float value;
    if (!reader.Float(&value)) return false;
    values->Add(value);
  }
  return true;
}

bool ReadPacked(std::string_view bytes, Values<std::string_view>* values) {
  values->Add(bytes);
  return true;
}

bool ReadOne(WireReader*, WireType, Values<std::string_view>*) { return false; }

// All values of a list, nothing if it is none.
template <typename Value>
std::optional<std::int64_t> ReadValues(std::string_view list, Values<Value> values) {
  WireReader reader(list);
  while (!reader.AtEnd()) {
    std::uint32_t field;
    WireType type;
    if (!reader.Tag(&field, &type)) return std::nullopt;
    std::string_view bytes;
    bool fine;
    if (field != 1) {
      fine = reader.Skip(type);
    } else if (type == WireType::kBytes) {
      fine = reader.Bytes(&bytes) && ReadPacked(bytes, &values);
    } else {
      fine = ReadOne(&reader, type, &values);
    }
    if (!fine) return std::nullopt;
  }
  return values.count();
}

// A varint that fills `size` bytes; false for another, or if it would take reading behind `end` to know.
bool OneVarint(const char* bytes, std::size_t size, const char* end, std::int64_t* value) {
  if (size == 0 || size > 8 || end - bytes < 8) return false;
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  const std::uint64_t used = ~std::uint64_t{0} >> (64 - 8 * size), more = 0x8080808080808080ull;
  if ((word & used & more) != (used >> 8 & more)) return false;
  *value = static_cast<std::int64_t>(_pext_u64(word & used, ~more));
  return true;
}

template <typename Value>
void Copy(const void* fill, std::int64_t from, const ListPlace& to) {
  const auto* values = static_cast<const Value*>(fill);
  std::copy(values + from, values + to.width, At<Value>(to) + from);
}

}  // namespace

std::optional<std::int64_t> ReadList(std::string_view list, const ListPlace& to) {
  switch (to.kind) {
    case ListKind::kBytes:
      return ReadValues(list, Values<std::string_view>(to));
    case ListKind::kFloat:
      return ReadValues(list, Values<float>(to));
    case ListKind::kInt64:
      return ReadValues(list, Values<std::int64_t>(to));
  }
  return std::nullopt;
}

bool ReadUsualList(const char* values, std::size_t size, const char* end, const ListPlace& to) {
  if (to.kind == ListKind::kFloat) {
    if (size != sizeof(float) * static_cast<std::size_t>(to.width)) return false;
    if (to.width == 1) {
      std::memcpy(At<float>(to), values, sizeof(float));  // no call, as its length is known
    } else {
      std::memcpy(At<float>(to), values, size);
    }
    return true;
  }
  if (to.width != 1) return false;
  if (to.kind == ListKind::kInt64) return OneVarint(values, size, end, At<std::int64_t>(to));
  *At<std::string_view>(to) = {values, size};
  return true;
}

void FillUp(const void* fill, std::int64_t from, const ListPlace& to) {
  switch (to.kind) {
    case ListKind::kBytes:
      return Copy<std::string_view>(fill, from, to);
    case ListKind::kFloat:
      return Copy<float>(fill, from, to);
    case ListKind::kInt64:
      return Copy<std::int64_t>(fill, from, to);
  }
}

}  // namespace afo
