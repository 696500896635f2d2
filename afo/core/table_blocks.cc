#include "afo/core/table_blocks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "afo/core/hash.h"

namespace afo {
namespace {

constexpr std::int64_t kMostBytes = 1 << 30;
// Key, step and frequency.
constexpr std::int64_t kRowHead = 16;

// What a shard's filter of keys knows. Cells are so large that bytes limit a block of them.
Exported ExportAdmission(const Table& table, ExportRange range, std::int64_t bytes, RowBlock block) {
  if (!table.options().admission.blooms()) return table.ExportCandidates(range, std::move(block));
  range.most =
      static_cast<std::uint32_t>(std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(table.cell_bytes())));
  return table.ExportCells(range, std::move(block));
}

// Of a shard's rows, behind what was removed of it.
Exported ExportTableRows(const Table& table, const ExportRange& range, RowBlock block) {
  const bool is_delta = range.since != kAllEpochs;
  if (range.first == 0 && is_delta) block = table.ExportRemoved(range.shard, range.since, std::move(block));
  return table.Export(range, std::move(block));
}

Failure FailureOf(BlockError error) {
  switch (error) {
    case BlockError::kNone:
      return {};
    case BlockError::kShort:
      return Damaged("a block of rows is cut off");
    case BlockError::kNoBlock:
      return Damaged("these bytes are no block of rows");
    case BlockError::kBadSum:
      return Damaged("a block of rows has another checksum than it says");
    case BlockError::kOtherWidth:
      return Damaged("a block's rows have another width, or another optimizer, than the table's");
  }
  return Damaged("a block of rows is damaged");
}

// Precondition: 0 <= first <= end <= kVirtualSlots.
SlotRange RangeOf(const ImportedSlots& slots) {
  return {.first = static_cast<std::uint32_t>(slots.first), .end = static_cast<std::uint32_t>(slots.end)};
}

// Whether all keys of a block are of these slots. Cells of a filter count keys of several servers.
bool IsOf(const RowBlock& block, const SlotRange& slots) {
  if (block.kind == BlockKind::kCells) return true;
  const auto contains = [&](std::int64_t key) { return slots.Contains(HashOf(key)); };
  return std::all_of(block.removed.begin(), block.removed.end(), contains) &&
         std::all_of(block.keys.begin(), block.keys.end(), contains);
}

}  // namespace

// The cursor holds how many of the part's shards are done, and the row of the next, in 32 bits each. All candidates of
// the part (or cells of their filter) come first, then all rows: a key that is admitted in between is in the checkpoint
// twice, and not lost.
Failure ExportBlock(const Table& table, const BlockRange& range, std::int64_t cursor, NextBlock* to) {
  if (range.part < 0 || range.parts < 1 || range.bytes < 1 || range.bytes > kMostBytes || cursor < 0 ||
      range.since < kAllEpochs) {
    return Invalid("part, parts, bytes, cursor or since of an export is out of its range");
  }
  const std::int64_t row_bytes = kRowHead + static_cast<std::int64_t>(sizeof(float)) * table.layout().floats;
  const std::int64_t shards = (table.shards() - range.part + range.parts - 1) / range.parts;
  RowBlock block;
  std::int64_t done = cursor >> 32;
  auto row = static_cast<std::uint32_t>(cursor);
  for (; done < 2 * shards; ++done, row = 0) {
    if (done == shards && !block.empty()) break;
    const ExportRange of{.shard = static_cast<std::int32_t>(range.part + done % shards * range.parts),
                         .first = row,
                         .most = static_cast<std::uint32_t>(std::max<std::int64_t>(1, range.bytes / row_bytes)),
                         .since = range.since};
    Exported exported = done < shards ? ExportAdmission(table, of, range.bytes, std::move(block))
                                      : ExportTableRows(table, of, std::move(block));
    block = std::move(exported.block);
    if (exported.next.has_value()) {
      row = *exported.next;
      break;
    }
  }
  to->bytes = block.empty() ? std::string() : Encode(block);
  to->next = done >= 2 * shards ? -1 : (done << 32 | row);
  return {};
}

Failure ImportBlock(Table& table, std::string_view bytes, bool weights_only, const ImportedSlots& owned,
                    const ImportedSlots& saved, std::int64_t* rows) {
  for (const ImportedSlots& slots : {owned, saved}) {
    if (slots.first >= 0 && slots.first <= slots.end && slots.end <= kVirtualSlots) continue;
    return Invalid("an import is of slots " + std::to_string(slots.first) + " up to " + std::to_string(slots.end) +
                   ", and there are " + std::to_string(kVirtualSlots));
  }
  const RowLayout& layout = table.layout();
  const auto floats = static_cast<std::uint32_t>(weights_only ? layout.dim : layout.floats);
  const DecodedBlock decoded = Decode(bytes, floats);
  if (Failure failure = FailureOf(decoded.error); failure.happened()) return failure;
  if (decoded.bytes != bytes.size()) return Damaged("there are bytes behind a block of rows");
  if (!IsOf(decoded.block, RangeOf(saved))) {
    return Damaged("a block of the slots " + std::to_string(saved.first) + " up to " + std::to_string(saved.end) +
                   " names a key of another server");
  }
  const std::optional<std::int64_t> imported = table.Import(decoded.block, RangeOf(owned));
  if (!imported.has_value()) return NoMemory("no memory is left for new rows of an embedding table");
  *rows = *imported;
  return {};
}

}  // namespace afo
