#include "example.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire.h"

namespace afo {
namespace {

constexpr const char* kNoExample = "is no tf.Example: its bytes are damaged or of another message";
// Names that a decoder remembers: records with a name of their own each would fill the memory.
constexpr std::size_t kMostKnown = 1 << 16;
// Bytes of a name that are compared at once.
constexpr std::size_t kNameRead = 16;

const char* NameOf(ListKind kind) {
  return kind == ListKind::kBytes ? "bytes" : kind == ListKind::kFloat ? "float" : "int64";
}

// Puts the values of one list where they belong, the first `width` of them, and counts all.
template <typename Value>
class Values {
 public:
  Values(void* column, std::int64_t row, std::int64_t width)
      : to_(static_cast<Value*>(column) + row * width), width_(width) {}

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

// All values of a list, -1 if it is none.
template <typename Value>
std::int64_t ReadList(std::string_view list, Values<Value> values) {
  WireReader reader(list);
  while (!reader.AtEnd()) {
    std::uint32_t field;
    WireType type;
    if (!reader.Tag(&field, &type)) return -1;
    std::string_view bytes;
    bool fine;
    if (field != 1) {
      fine = reader.Skip(type);
    } else if (type == WireType::kBytes) {
      fine = reader.Bytes(&bytes) && ReadPacked(bytes, &values);
    } else {
      fine = ReadOne(&reader, type, &values);
    }
    if (!fine) return -1;
  }
  return values.count();
}

template <typename Value>
void Copy(const void* fill, void* column, std::int64_t row, std::int64_t from, std::int64_t width) {
  const auto* values = static_cast<const Value*>(fill);
  std::copy(values + from, values + width, static_cast<Value*>(column) + row * width + from);
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

}  // namespace

ExampleColumns::ExampleColumns(std::vector<ExampleColumn> columns) : columns_(std::move(columns)) {
  for (std::size_t i = 0; i < columns_.size(); ++i) by_name_.emplace(columns_[i].name, static_cast<int>(i));
}

int ExampleColumns::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

ExampleDecoder::Known::Known(const std::string& feature, int number)
    : words{0, 0}, name(feature.data()), size(static_cast<std::uint32_t>(feature.size())), column(number) {
  std::memcpy(words, feature.data(), std::min(feature.size(), kNameRead));
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t bytes = std::min<std::size_t>(feature.size() - std::min(feature.size(), 8 * i), 8);
    bits[i] = static_cast<std::uint8_t>(8 * bytes);
  }
}

// entry, key, name, value, list, packed: 0a L 0a N <name> 12 V k2 M 0a P <values>
inline std::size_t ExampleDecoder::Known::EntryAt(const char* bytes, std::size_t left) const {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes);
  if (left < 4 + kNameRead || at[0] != 0x0a || at[2] != 0x0a || at[3] != size) return 0;
  const std::size_t entry = at[1];
  if (entry >= 128 || entry + 2 > left || size + 8 > entry) return 0;
  std::uint64_t found[2];
  std::memcpy(found, bytes + 4, sizeof(found));
  const std::uint64_t other = (_bzhi_u64(found[0], bits[0]) ^ words[0]) | (_bzhi_u64(found[1], bits[1]) ^ words[1]);
  if (other != 0) return 0;
  const bool is_long = size > kNameRead;
  if (is_long && std::memcmp(bytes + 4 + kNameRead, name + kNameRead, size - kNameRead) != 0) return 0;
  return entry + 2;
}

ExampleDecoder::ExampleDecoder(const ExampleColumns& columns, const std::vector<void*>& outputs)
    : columns_(columns), outputs_(outputs), seen_(columns.all().size(), -1) {}

std::string ExampleDecoder::Decode(std::string_view record, std::int64_t row) {
  row_ = row;
  found_ = 0;
  expected_ = 0;
  wrong_.clear();
  WireReader reader(record);
  while (!reader.AtEnd()) {
    std::uint32_t field;
    WireType type;
    if (!reader.Tag(&field, &type)) return kNoExample;
    if (field != 1 || type != WireType::kBytes) {
      if (!reader.Skip(type)) return kNoExample;
      continue;
    }
    std::string_view features;
    if (!reader.Bytes(&features)) return kNoExample;
    if (!DecodeFeatures(features)) return wrong_.empty() ? kNoExample : wrong_;
  }
  for (std::size_t i = 0; found_ < seen_.size() && i < seen_.size(); ++i) {
    if (seen_[i] == row) continue;
    const int column = static_cast<int>(i);
    if (columns_.all()[i].required) Refuse(column, "is not there");
    FillUp(column, 0);
  }
  return wrong_;
}

bool ExampleDecoder::DecodeFeatures(std::string_view bytes) {
  WireReader reader(bytes);
  while (!reader.AtEnd()) {
    if (const std::size_t used = DecodeUsual(reader.Rest())) {
      reader.Jump(used);
      continue;
    }
    std::uint32_t field;
    WireType type;
    std::string_view entry;
    if (!reader.Tag(&field, &type)) return false;
    if (field != 1 || type != WireType::kBytes) {
      if (!reader.Skip(type)) return false;
    } else if (!reader.Bytes(&entry) || !DecodeEntry(entry)) {
      return false;
    }
  }
  return true;
}

std::size_t ExampleDecoder::DecodeUsual(std::string_view rest) {
  const Known* next = known_.data() + expected_;
  const Known* const last = known_.data() + known_.size();
  // Of thousands of features most are read by nobody, and stand behind one another.
  std::size_t skipped = 0, entry = 0;
  for (; next != last; ++next, skipped += entry) {
    entry = next->EntryAt(rest.data() + skipped, rest.size() - skipped);
    if (next->column >= 0 || entry == 0) break;
  }
  expected_ = static_cast<std::size_t>(next - known_.data());
  if (skipped > 0 || next == last || entry == 0) return skipped;
  const Known& known = *next;
  const std::size_t name = known.size;
  const ExampleColumn& column = columns_.all()[known.column];
  const auto* at = reinterpret_cast<const unsigned char*>(rest.data()) + name + 4;
  const std::size_t packed = entry - name - 10;
  const auto list = static_cast<unsigned>(column.kind) << 3 | 2;
  if (at[0] != 0x12 || at[1] != packed + 4 || at[2] != list || at[3] != packed + 2 || at[4] != 0x0a || at[5] != packed) {
    return 0;
  }
  const char* values = rest.data() + name + 10;
  if (!DecodePacked(column, known.column, values, packed, rest.data() + rest.size())) return 0;
  ++expected_;
  Note(known.column, true);
  return entry;
}

bool ExampleDecoder::DecodePacked(const ExampleColumn& column, int number, const char* values, std::size_t size,
                                  const char* end) {
  if (column.kind == ListKind::kFloat) {
    if (size != sizeof(float) * static_cast<std::size_t>(column.width)) return false;
    std::memcpy(static_cast<float*>(outputs_[number]) + row_ * column.width, values, size);
    return true;
  }
  if (column.width != 1) return false;
  if (column.kind == ListKind::kBytes) {
    static_cast<std::string_view*>(outputs_[number])[row_] = {values, size};
    return true;
  }
  return OneVarint(values, size, end, static_cast<std::int64_t*>(outputs_[number]) + row_);
}

void ExampleDecoder::Note(int column, bool is_there) {
  if (is_there == (seen_[column] == row_)) return;
  found_ += is_there ? 1 : -1;
  seen_[column] = is_there ? row_ : -1;
}

bool ExampleDecoder::DecodeEntry(std::string_view entry) {
  WireReader reader(entry);
  std::string_view name, feature;
  while (!reader.AtEnd()) {
    std::uint32_t field;
    WireType type;
    if (!reader.Tag(&field, &type)) return false;
    if (type != WireType::kBytes || field > 2) {
      if (!reader.Skip(type)) return false;
    } else if (!reader.Bytes(field == 1 ? &name : &feature)) {
      return false;
    }
  }
  const int column = ColumnOf(name);
  return column < 0 || DecodeFeature(column, feature);
}

bool ExampleDecoder::DecodeFeature(int column, std::string_view feature) {
  WireReader reader(feature);
  bool had = false;
  while (!reader.AtEnd()) {
    std::uint32_t field;
    WireType type;
    std::string_view list;
    if (!reader.Tag(&field, &type)) return false;
    if (field > 3 || type != WireType::kBytes) {
      if (!reader.Skip(type)) return false;
      continue;
    }
    if (!reader.Bytes(&list)) return false;
    if (had) return Refuse(column, "has two lists");
    had = true;
    const ListKind kind = columns_.all()[column].kind;
    if (field != static_cast<std::uint32_t>(kind)) {
      const std::string other = NameOf(static_cast<ListKind>(field));
      return Refuse(column, "holds " + other + " values where " + NameOf(kind) + " values are read");
    }
    if (!DecodeList(column, list)) return false;
  }
  Note(column, had);
  return true;
}

bool ExampleDecoder::DecodeList(int column, std::string_view list) {
  const ExampleColumn& wanted = columns_.all()[column];
  void* out = outputs_[column];
  std::int64_t count = 0;
  switch (wanted.kind) {
    case ListKind::kBytes:
      count = ReadList(list, Values<std::string_view>(out, row_, wanted.width));
      break;
    case ListKind::kFloat:
      count = ReadList(list, Values<float>(out, row_, wanted.width));
      break;
    case ListKind::kInt64:
      count = ReadList(list, Values<std::int64_t>(out, row_, wanted.width));
      break;
  }
  if (count < 0) return false;
  if (!wanted.any_length && count != wanted.width) {
    const std::string words = "holds " + std::to_string(count) + " values where " + std::to_string(wanted.width);
    return Refuse(column, words + (wanted.width == 1 ? " is read" : " are read"));
  }
  if (count < wanted.width) FillUp(column, count);
  return true;
}

void ExampleDecoder::FillUp(int column, std::int64_t from) {
  const ExampleColumn& to = columns_.all()[column];
  switch (to.kind) {
    case ListKind::kBytes:
      return Copy<std::string_view>(to.fill, outputs_[column], row_, from, to.width);
    case ListKind::kFloat:
      return Copy<float>(to.fill, outputs_[column], row_, from, to.width);
    case ListKind::kInt64:
      return Copy<std::int64_t>(to.fill, outputs_[column], row_, from, to.width);
  }
}

int ExampleDecoder::ColumnOf(std::string_view name) {
  if (expected_ < known_.size() && known_[expected_].Is(name)) return known_[expected_++].column;
  const auto found = place_.find(std::string(name));
  if (found != place_.end()) {
    expected_ = found->second + 1;
    return known_[found->second].column;
  }
  const int column = columns_.Find(name);
  if (known_.size() < kMostKnown) {
    const auto added = place_.emplace(name, known_.size()).first;
    known_.emplace_back(added->first, column);
    expected_ = known_.size();
  }
  return column;
}

bool ExampleDecoder::Refuse(int column, const std::string& words) {
  if (wrong_.empty()) wrong_ = "feature `" + columns_.all()[column].name + "` " + words;
  return false;
}

}  // namespace afo
