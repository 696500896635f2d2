#include "afo/core/served_layout.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "afo/core/snapshot.h"
#include "afo/core/table.h"

namespace afo {
namespace {

constexpr char kMagic[] = "AFOROWS3", kPaddedMagic[] = "AFOROWS2";
constexpr std::size_t kMagicBytes = sizeof(kMagic) - 1;

// What is behind the magic.
struct RawLayout {
  std::uint32_t type;
  std::uint32_t dim;
  std::uint64_t rows;
  std::uint64_t removed;
  std::uint64_t lines;
  std::uint64_t parent;
  float absent;
  std::uint32_t sums_checksum;
};
static_assert(sizeof(RawLayout) == 48, "the header has no gaps");
constexpr std::size_t kPathAt = kMagicBytes + sizeof(RawLayout);

// Of a parent, or what is wrong with it.
std::string WrongParent(const RawLayout& raw, const std::string& path) {
  if (raw.parent == 0) {
    return raw.removed == 0 && path.empty() ? "" : "it has changes of another table, and does not say of which one";
  }
  if (path.empty() || path.size() > kMostParentPath || path.front() == '/') {
    return "it has changes of another table, and no relative path of that one";
  }
  return raw.removed < kNoRow - raw.rows ? "" : "it has more keys than a table can";
}

// To where a part of the file may begin.
std::uint64_t RoundUp(std::uint64_t bytes, bool is_padded) {
  const std::uint64_t unit = is_padded ? kBlockBytes : sizeof(PackedLine);
  return (bytes + unit - 1) / unit * unit;
}

std::size_t HeaderBytes(std::size_t path_bytes, bool is_padded) {
  return static_cast<std::size_t>(RoundUp(kPathAt + path_bytes + 1 + sizeof(std::uint32_t), is_padded));
}

bool Begins(const char* bytes, const char* magic) { return std::memcmp(bytes, magic, kMagicBytes) == 0; }

}  // namespace

std::uint64_t ServedLayout::rows_at() const { return HeaderBytes(parent_path.size(), is_padded); }

// No overflow: there are less than 2^32 of either, and a row has less than 2^15 bytes.
std::uint64_t ServedLayout::rows_end() const { return rows_at() + header.count * header.stride(); }

std::uint64_t ServedLayout::index_at() const { return RoundUp(rows_end() + removed * sizeof(std::int64_t), is_padded); }

std::uint64_t ServedLayout::sums_at() const { return RoundUp(index_at() + lines * sizeof(PackedLine), is_padded); }

std::size_t ServedLayout::blocks() const {
  return static_cast<std::size_t>((sums_at() + kBlockBytes - 1) / kBlockBytes) - first_page();
}

bool HasBlocks(const char* bytes) { return Begins(bytes, kMagic) || Begins(bytes, kPaddedMagic); }

ParsedServedLayout ParseServedLayout(const char* bytes, std::uint64_t size) {
  const auto wrong = [](std::string words) { return ParsedServedLayout{.layout = {}, .wrong = std::move(words)}; };
  if (size < kLeastLayoutBytes) return wrong("it is shorter than an empty table");
  if (!HasBlocks(bytes)) return wrong("it does not begin as a table of afo does");
  const bool is_padded = Begins(bytes, kPaddedMagic);
  const auto there = static_cast<std::size_t>(std::min<std::uint64_t>(size, kBlockBytes));
  const char* path = bytes + kPathAt;
  const std::string parent_path(path, strnlen(path, there - kPathAt));
  const std::size_t header_bytes = HeaderBytes(parent_path.size(), is_padded);
  if (header_bytes > there) return wrong("its header is damaged, or cut off");
  const std::size_t checked = header_bytes - sizeof(std::uint32_t);
  std::uint32_t checksum;
  std::memcpy(&checksum, bytes + checked, sizeof(checksum));
  if (checksum != Crc32c(bytes, checked)) return wrong("its header is damaged");
  RawLayout raw;
  std::memcpy(&raw, bytes + kMagicBytes, sizeof(raw));
  if (std::any_of(path + parent_path.size(), bytes + checked, [](char each) { return each != 0; })) {
    return wrong("it is of a later form of tables, which this version of afo cannot read");
  }
  if (std::string found = WrongShape(raw.type, raw.dim, raw.rows); !found.empty()) return wrong(std::move(found));
  if (std::string found = WrongParent(raw, parent_path); !found.empty()) return wrong(std::move(found));
  if (raw.lines > 0xffffffffull) return wrong("it has more lines of an index than a table can");
  const ServedLayout layout{.header = {.type = static_cast<RowType>(raw.type),
                                       .dim = static_cast<std::int32_t>(raw.dim),
                                       .count = raw.rows,
                                       .absent = raw.absent},
                            .removed = raw.removed,
                            .lines = raw.lines,
                            .parent = raw.parent,
                            .parent_path = parent_path,
                            .sums_checksum = raw.sums_checksum,
                            .header_checksum = checksum,
                            .is_padded = is_padded};
  if (size != layout.size()) {
    return wrong("it has " + std::to_string(size) + " bytes, and its header speaks of " +
                 std::to_string(layout.size()));
  }
  return {.layout = layout, .wrong = ""};
}

std::string EncodeHeader(ServedLayout* layout) {
  const RawLayout raw{.type = static_cast<std::uint32_t>(layout->header.type),
                      .dim = static_cast<std::uint32_t>(layout->header.dim),
                      .rows = layout->header.count,
                      .removed = layout->removed,
                      .lines = layout->lines,
                      .parent = layout->parent,
                      .absent = layout->header.absent,
                      .sums_checksum = layout->sums_checksum};
  std::string bytes(static_cast<std::size_t>(layout->rows_at()), '\0');
  std::memcpy(bytes.data(), layout->is_padded ? kPaddedMagic : kMagic, kMagicBytes);
  std::memcpy(bytes.data() + kMagicBytes, &raw, sizeof(raw));
  assert(layout->parent_path.size() <= kMostParentPath);
  std::memcpy(bytes.data() + kPathAt, layout->parent_path.data(), layout->parent_path.size());
  const std::size_t checked = bytes.size() - sizeof(layout->header_checksum);
  layout->header_checksum = Crc32c(bytes.data(), checked);
  std::memcpy(bytes.data() + checked, &layout->header_checksum, sizeof(layout->header_checksum));
  return bytes;
}

void BlockSums::Add(const char* bytes, std::size_t size) {
  while (size > 0) {
    const std::size_t piece = std::min(size, kBlockBytes - held_);
    open_ = Crc32c(bytes, piece, open_);
    held_ += piece;
    bytes += piece;
    size -= piece;
    if (held_ < kBlockBytes) continue;
    sums_.push_back(std::exchange(open_, 0));
    held_ = 0;
  }
}

void BlockSums::Finish() {
  if (held_ > 0) sums_.push_back(std::exchange(open_, 0));
  held_ = 0;
}

}  // namespace afo
