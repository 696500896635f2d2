// What of a shard goes to a checkpoint, and comes back.

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>
#include <utility>

#include "afo/core/shard.h"

namespace afo {
namespace {

// Whatever an empty block was of, it is of this kind now.
void Begin(RowBlock& block, BlockKind kind, std::int32_t floats) {
  assert(block.empty() || (block.kind == kind && block.floats == static_cast<std::uint32_t>(floats)));
  block.kind = kind;
  block.floats = static_cast<std::uint32_t>(floats);
}

std::optional<std::uint32_t> NextOf(std::uint32_t at, std::size_t end) {
  return at < end ? std::optional(at) : std::nullopt;
}

// All of a row but its values.
void AppendHeader(const RowHeader& header, RowBlock& block) {
  block.keys.push_back(header.key);
  block.steps.push_back(header.step);
  block.frequencies.push_back(header.frequency());
}

}  // namespace

Exported Shard::Export(const ExportRange& range, RowBlock block) const {
  Begin(block, BlockKind::kRows, spec_.layout.floats);
  std::shared_lock reading(mutex_);
  std::uint32_t at = range.first;
  for (; at < rows_.end() && block.keys.size() < range.most; ++at) {
    const RowHeader& header = *rows_.header(at);
    if (header.is_free() || !spec_.ChangedSince(header.epoch(), range.since)) continue;
    AppendHeader(header, block);
    const std::size_t end = block.values.size();
    block.values.resize(end + static_cast<std::size_t>(spec_.layout.floats));
    rows_.Read(at, block.values.data() + end);
    std::copy_n(rows_.slots(at), spec_.layout.slots(), block.values.data() + end + spec_.layout.dim);
  }
  return {.block = std::move(block), .next = NextOf(at, rows_.end())};
}

Exported Shard::ExportCandidates(const ExportRange& range, RowBlock block) const {
  Begin(block, BlockKind::kCandidates, 0);
  std::shared_lock reading(mutex_);
  std::uint32_t at = range.first;
  for (; at < candidates_.end() && block.keys.size() < range.most; ++at) {
    const RowHeader& header = candidates_.header(at);
    if (!header.is_free() && spec_.ChangedSince(header.epoch(), range.since)) AppendHeader(header, block);
  }
  return {.block = std::move(block), .next = NextOf(at, candidates_.end())};
}

Exported Shard::ExportCells(const ExportRange& range, RowBlock block) const {
  Begin(block, BlockKind::kCells, static_cast<std::int32_t>(bloom_.shape().cell_bytes / sizeof(float)));
  std::shared_lock reading(mutex_);
  std::uint32_t at = range.first;
  for (; at < bloom_.cells() && block.keys.size() < range.most; ++at) {
    const std::vector<std::uint8_t>& counters = bloom_.cell(at);
    if (counters.empty() || !spec_.ChangedSince(bloom_.epoch(at), range.since)) continue;
    block.keys.push_back(bloom_.NumberOf(at, number_));
    block.steps.push_back(0);
    block.frequencies.push_back(0);
    block.values.resize(block.values.size() + block.floats);
    std::memcpy(block.values.data() + block.values.size() - block.floats, counters.data(), counters.size());
  }
  return {.block = std::move(block), .next = NextOf(at, bloom_.cells())};
}

RowBlock Shard::ExportRemoved(std::int64_t since, RowBlock block) const {
  Begin(block, BlockKind::kRows, spec_.layout.floats);
  std::shared_lock reading(mutex_);
  for (const Removal& removal : removed_) {
    if (static_cast<std::int64_t>(removal.epoch) >= since) block.removed.push_back(removal.key);
  }
  return block;
}

void Shard::ForgetRemoved(std::uint64_t before) {
  std::unique_lock writing(mutex_);
  std::erase_if(removed_, [before](const Removal& removal) { return removal.epoch < before; });
}

bool Shard::ImportRow(const RowBlock& block, std::size_t i) {
  std::unique_lock writing(mutex_);
  if (!Reserve(1)) return false;
  const std::uint32_t row = FindOrInsert(block.keys[i]);
  RowHeader* header = rows_.header(row);
  header->step = std::min(block.steps[i], kFreeStep - 1);
  header->set_counters(block.frequencies[i], spec_.row_epoch());
  const float* values = block.values.data() + i * block.floats;
  if (static_cast<std::int32_t>(block.floats) == spec_.layout.dim) {
    BeginRow(row, values);
  } else {
    rows_.Write(row, values);
    std::copy_n(values + spec_.layout.dim, spec_.layout.slots(), rows_.slots(row));
  }
  candidates_.Drop(block.keys[i]);
  return true;
}

bool Shard::ImportCandidate(const RowBlock& block, std::size_t i) {
  std::unique_lock writing(mutex_);
  return candidates_.Set(block.keys[i], block.frequencies[i], block.steps[i], spec_.row_epoch());
}

void Shard::ImportCell(const RowBlock& block, std::size_t i) {
  std::unique_lock writing(mutex_);
  const auto* counters = reinterpret_cast<const std::uint8_t*>(block.values.data() + i * block.floats);
  bloom_.Merge(block.keys[i], counters, spec_.row_epoch());
}

}  // namespace afo
