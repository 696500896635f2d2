#include "afo/core/served_layout.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "afo/core/index.h"
#include "afo/core/snapshot.h"
#include "afo/core/table.h"

namespace afo {
namespace {

constexpr char kMagic[] = "AFOROWS2";
constexpr std::size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr std::size_t kChecked = kBlockBytes - sizeof(std::uint32_t);

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

std::uint64_t RoundUp(std::uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

}  // namespace

std::uint64_t ServedLayout::index_at() const {
  // No overflow: there are less than 2^32 of either, and a row has less than 2^15 bytes.
  return kBlockBytes + RoundUp(header.count * header.stride() + removed * sizeof(std::int64_t));
}

std::uint64_t ServedLayout::sums_at() const { return index_at() + RoundUp(lines * sizeof(Line)); }

bool HasBlocks(const char* bytes) { return std::memcmp(bytes, kMagic, kMagicBytes) == 0; }

ParsedServedLayout ParseServedLayout(const char* bytes, std::uint64_t size) {
  const auto wrong = [](std::string words) { return ParsedServedLayout{.layout = {}, .wrong = std::move(words)}; };
  if (size < kBlockBytes) return wrong("it is shorter than an empty table");
  if (!HasBlocks(bytes)) return wrong("it does not begin as a table of afo does");
  std::uint32_t checksum;
  std::memcpy(&checksum, bytes + kChecked, sizeof(checksum));
  if (checksum != Crc32c(bytes, kChecked)) return wrong("its header is damaged");
  RawLayout raw;
  std::memcpy(&raw, bytes + kMagicBytes, sizeof(raw));
  const char* behind = bytes + kMagicBytes + sizeof(raw);
  const std::string parent_path(behind, strnlen(behind, static_cast<std::size_t>(bytes + kChecked - behind)));
  if (std::any_of(behind + parent_path.size(), bytes + kChecked, [](char each) { return each != 0; })) {
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
                            .header_checksum = checksum};
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
  std::string bytes(kBlockBytes, '\0');
  std::memcpy(bytes.data(), kMagic, kMagicBytes);
  std::memcpy(bytes.data() + kMagicBytes, &raw, sizeof(raw));
  assert(layout->parent_path.size() <= kMostParentPath);
  std::memcpy(bytes.data() + kMagicBytes + sizeof(raw), layout->parent_path.data(), layout->parent_path.size());
  layout->header_checksum = Crc32c(bytes.data(), kChecked);
  std::memcpy(bytes.data() + kChecked, &layout->header_checksum, sizeof(layout->header_checksum));
  return bytes;
}

void BlockSums::Add(const char* bytes, std::size_t size) {
  while (size > 0) {
    const std::size_t piece = std::min(size, kBlockBytes - held_);
    open_ = Crc32c(bytes, piece, held_ == 0 ? 0 : open_);
    held_ += piece;
    bytes += piece;
    size -= piece;
    if (held_ < kBlockBytes) continue;
    sums_.push_back(open_);
    held_ = 0;
  }
}

std::size_t BlockSums::Fill() {
  if (held_ > 0) {
    const std::string zeros(kBlockBytes - held_, '\0');
    Add(zeros.data(), zeros.size());
  }
  return sums_.size();
}

}  // namespace afo
