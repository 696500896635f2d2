#include "afo/core/example.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "afo/core/wire.h"

namespace afo {
namespace {

constexpr const char* kNoExample = "is no tf.Example: its bytes are damaged or of another message";
// Names that a decoder remembers: records with a name of their own each would fill the memory.
constexpr std::size_t kMostKnown = 1 << 16;
// As long as no name is in an entry of the usual form. What is remembered may stay for other records.
constexpr std::size_t kLongName = 128;

const char* NameOf(ListKind kind) {
  return kind == ListKind::kBytes ? "bytes" : kind == ListKind::kFloat ? "float" : "int64";
}

}  // namespace

ExampleColumns::ExampleColumns(std::vector<ExampleColumn> columns) : columns_(std::move(columns)) {
  for (std::size_t i = 0; i < columns_.size(); ++i) by_name_.emplace(columns_[i].name, static_cast<int>(i));
}

int ExampleColumns::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

ExampleDecoder::ExampleDecoder(const ExampleColumns& columns, const std::vector<void*>& outputs)
    : columns_(columns), outputs_(&outputs), seen_(columns.all().size(), -1) {
  assert(outputs.size() == columns.all().size());
}

void ExampleDecoder::Restart(const std::vector<void*>& outputs) {
  assert(outputs.size() == columns_.all().size());
  outputs_ = &outputs;
  rows_ = strayed_ = 0;
  std::fill(seen_.begin(), seen_.end(), -1);
}

std::string ExampleDecoder::Decode(std::string_view record, std::int64_t row) {
  row_ = row;
  ++rows_;
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
    FillUp(columns_.all()[i].fill, 0, PlaceOf(column));
  }
  return wrong_;
}

bool ExampleDecoder::DecodeFeatures(std::string_view bytes) {
  WireReader reader(bytes);
  while (!reader.AtEnd()) {
    if (const std::size_t used = DecodeUsual(reader.Rest())) {
      if (!reader.Jump(used)) return false;
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
  const KnownFeature* next = known_.data() + expected_;
  const KnownFeature* const last = known_.data() + known_.size();
  // Of thousands of features most are read by nobody, and stand behind one another.
  std::size_t skipped = 0, entry = 0;
  for (; next != last; ++next, skipped += entry) {
    entry = next->EntryAt(rest.data() + skipped, rest.size() - skipped);
    if (next->column() >= 0 || entry == 0) break;
  }
  expected_ = static_cast<std::size_t>(next - known_.data());
  if (skipped > 0 || next == last || entry == 0) return skipped;
  // value, list, packed: 12 V k2 M 0a P <values>
  const ListPlace to = PlaceOf(next->column());
  const char* const value = rest.data() + 4 + next->size();
  const auto* at = reinterpret_cast<const unsigned char*>(value);
  const std::size_t packed = entry - 2 - KnownFeature::kAround - next->size();
  const auto list = static_cast<unsigned>(to.kind) << 3 | 2;
  const bool is_usual = at[0] == 0x12 && at[1] == packed + 4 && at[2] == list && at[3] == packed + 2 && at[4] == 0x0a &&
                        at[5] == packed;
  if (!is_usual || !ReadUsualList(value + 6, packed, rest.data() + rest.size(), to)) return 0;
  ++expected_;
  Note(next->column(), true);
  return entry;
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
  const std::optional<std::int64_t> count = ReadList(list, PlaceOf(column));
  if (!count.has_value()) return false;
  if (!wanted.any_length && *count != wanted.width) {
    const std::string words = "holds " + std::to_string(*count) + " values where " + std::to_string(wanted.width);
    return Refuse(column, words + (wanted.width == 1 ? " is read" : " are read"));
  }
  if (*count < wanted.width) FillUp(wanted.fill, *count, PlaceOf(column));
  return true;
}

ListPlace ExampleDecoder::PlaceOf(int column) const {
  const ExampleColumn& to = columns_.all()[column];
  return {to.kind, (*outputs_)[column], row_, to.width};
}

int ExampleDecoder::ColumnOf(std::string_view name) {
  if (expected_ < known_.size() && known_[expected_].Is(name)) return known_[expected_++].column();
  const auto found = place_.find(std::string(name));
  if (found != place_.end()) {
    ++strayed_;
    expected_ = found->second + 1;
    return known_[found->second].column();
  }
  const int column = columns_.Find(name);
  if (known_.size() < kMostKnown && name.size() < kLongName) {
    const auto added = place_.emplace(name, known_.size()).first;
    known_.emplace_back(added->first, column);
    unread_ += column < 0 ? 1 : 0;
    expected_ = known_.size();
  }
  return column;
}

bool ExampleDecoder::Refuse(int column, const std::string& words) {
  if (wrong_.empty()) wrong_ = "feature `" + columns_.all()[column].name + "` " + words;
  return false;
}

}  // namespace afo
