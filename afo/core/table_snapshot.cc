// What of a table goes to a checkpoint, and comes back.

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>
#include <utility>

#include "afo/core/table.h"

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

bool Table::ChangedSince(std::uint8_t epoch, std::int64_t since) const {
  const std::uint64_t now = epoch_.load(std::memory_order_relaxed);
  const std::uint64_t passed = now - static_cast<std::uint64_t>(since);
  return since == kAllEpochs || passed > 0xff || static_cast<std::uint8_t>(now - epoch) <= passed;
}

Exported Table::Export(const ExportRange& range, RowBlock block) const {
  assert(range.shard >= 0 && range.shard < shards());
  Begin(block, BlockKind::kRows, layout_.floats);
  const Shard& shard = *shards_[range.shard];
  std::shared_lock reading(shard.mutex);
  std::uint32_t at = range.first;
  for (; at < shard.rows.end() && block.keys.size() < range.most; ++at) {
    const RowHeader& header = *shard.rows.header(at);
    if (header.is_free() || !ChangedSince(header.epoch(), range.since)) continue;
    const float* values = shard.rows.values(at);
    AppendHeader(header, block);
    block.values.insert(block.values.end(), values, values + layout_.floats);
  }
  return {.block = std::move(block), .next = NextOf(at, shard.rows.end())};
}

Exported Table::ExportCandidates(const ExportRange& range, RowBlock block) const {
  assert(range.shard >= 0 && range.shard < shards());
  Begin(block, BlockKind::kCandidates, 0);
  const Candidates& candidates = shards_[range.shard]->candidates;
  std::shared_lock reading(shards_[range.shard]->mutex);
  std::uint32_t at = range.first;
  for (; at < candidates.end() && block.keys.size() < range.most; ++at) {
    const RowHeader& header = candidates.header(at);
    if (!header.is_free() && ChangedSince(header.epoch(), range.since)) AppendHeader(header, block);
  }
  return {.block = std::move(block), .next = NextOf(at, candidates.end())};
}

Exported Table::ExportCells(const ExportRange& range, RowBlock block) const {
  assert(range.shard >= 0 && range.shard < shards());
  const CountingBloom& bloom = shards_[range.shard]->bloom;
  Begin(block, BlockKind::kCells, static_cast<std::int32_t>(bloom.shape().cell_bytes / sizeof(float)));
  std::shared_lock reading(shards_[range.shard]->mutex);
  std::uint32_t at = range.first;
  for (; at < bloom.cells() && block.keys.size() < range.most; ++at) {
    const std::vector<std::uint8_t>& counters = bloom.cell(at);
    if (counters.empty() || !ChangedSince(bloom.epoch(at), range.since)) continue;
    block.keys.push_back(bloom.NumberOf(at, range.shard));
    block.steps.push_back(0);
    block.frequencies.push_back(0);
    block.values.resize(block.values.size() + block.floats);
    std::memcpy(block.values.data() + block.values.size() - block.floats, counters.data(), counters.size());
  }
  return {.block = std::move(block), .next = NextOf(at, bloom.cells())};
}

RowBlock Table::ExportRemoved(std::int32_t shard_number, std::int64_t since, RowBlock block) const {
  assert(shard_number >= 0 && shard_number < shards());
  Begin(block, BlockKind::kRows, layout_.floats);
  const Shard& shard = *shards_[shard_number];
  std::shared_lock reading(shard.mutex);
  for (const Removal& removal : shard.removed) {
    if (static_cast<std::int64_t>(removal.epoch) >= since) block.removed.push_back(removal.key);
  }
  return block;
}

void Table::ForgetRemoved(std::uint64_t before) {
  for (const auto& shard : shards_) {
    std::unique_lock writing(shard->mutex);
    auto& removed = shard->removed;
    const auto old = [before](const Removal& removal) { return removal.epoch < before; };
    removed.erase(std::remove_if(removed.begin(), removed.end(), old), removed.end());
  }
}

void Table::Clear() {
  for (const auto& shard : shards_) {
    std::unique_lock writing(shard->mutex);
    shard->index = Index();
    shard->rows = RowStore(layout_);
    shard->candidates = Candidates();
    shard->bloom = CountingBloom(options_.admission, options_.shard_bits);
    shard->removed.clear();
  }
}

bool Table::ImportRow(const RowBlock& block, std::size_t i, std::uint64_t hash) {
  Shard& shard = *shards_[ShardOf(hash, options_.shard_bits)];
  std::unique_lock writing(shard.mutex);
  if (!Reserve(shard, 1)) return false;
  const std::uint32_t row = FindOrInsert(shard, block.keys[i]);
  RowHeader* header = shard.rows.header(row);
  header->step = std::min(block.steps[i], kFreeStep - 1);
  header->set_counters(block.frequencies[i], static_cast<std::uint8_t>(epoch_.load(std::memory_order_relaxed)));
  float* values = shard.rows.values(row);
  std::copy_n(block.values.data() + i * block.floats, block.floats, values);
  if (static_cast<std::int32_t>(block.floats) == layout_.dim) FillSlots(options_.optimizer, values, layout_.dim);
  shard.candidates.Drop(block.keys[i]);
  return true;
}

// A table that admits all keys has no use for them: its job was changed since.
bool Table::ImportCandidate(const RowBlock& block, std::size_t i, std::uint64_t hash) {
  if (!options_.admission.remembers()) return true;
  Shard& shard = *shards_[ShardOf(hash, options_.shard_bits)];
  std::unique_lock writing(shard.mutex);
  const auto epoch = static_cast<std::uint8_t>(epoch_.load(std::memory_order_relaxed));
  return shard.candidates.Set(block.keys[i], block.frequencies[i], block.steps[i], epoch);
}

bool Table::OwnsGroup(std::int64_t group, std::uint32_t server, std::uint32_t servers) const {
  const int bits = kSlotBits - shards_.front()->bloom.shape().group_bits;
  const auto first = static_cast<std::uint64_t>(group) << bits, last = (static_cast<std::uint64_t>(group) + 1) << bits;
  const auto owner = [&](std::uint64_t slot) { return OwnerOf(slot << (64 - kSlotBits), servers); };
  return first < last && last <= kVirtualSlots && owner(first) <= server && server <= owner(last - 1);
}

// A cell that was cut between servers is held by each: counts of another's keys are only too high. A filter of another
// size has nothing to tell.
void Table::ImportCells(const RowBlock& block, std::uint32_t server, std::uint32_t servers) {
  if (!options_.admission.blooms() || block.floats * sizeof(float) != shards_.front()->bloom.shape().cell_bytes) return;
  const auto epoch = static_cast<std::uint8_t>(epoch_.load(std::memory_order_relaxed));
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    const std::int64_t number = block.keys[i];
    if (number < 0 || !OwnsGroup(number >> kMaxShardBits, server, servers)) continue;
    const auto low = static_cast<std::size_t>(number & ((1 << kMaxShardBits) - 1));
    Shard& shard = *shards_[low >> (kMaxShardBits - options_.shard_bits)];
    std::unique_lock writing(shard.mutex);
    shard.bloom.Merge(number, reinterpret_cast<const std::uint8_t*>(block.values.data() + i * block.floats), epoch);
  }
}

std::optional<std::int64_t> Table::Import(const RowBlock& block, std::uint32_t server, std::uint32_t servers) {
  assert(server < servers);
  if (block.kind == BlockKind::kCells) {
    ImportCells(block, server, servers);
    return 0;
  }
  const bool candidates = block.kind == BlockKind::kCandidates;
  assert(block.floats == (candidates ? 0 : static_cast<std::uint32_t>(layout_.floats)) ||
         block.floats == static_cast<std::uint32_t>(layout_.dim) || block.keys.empty());
  for (const std::int64_t key : block.removed) {
    const std::uint64_t hash = HashOf(key);
    if (OwnerOf(hash, servers) == server) RemoveOne(key, hash);
  }
  std::int64_t imported = 0;
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    const std::uint64_t hash = HashOf(block.keys[i]);
    if (OwnerOf(hash, servers) != server) continue;
    if (!(candidates ? ImportCandidate(block, i, hash) : ImportRow(block, i, hash))) return std::nullopt;
    imported += candidates ? 0 : 1;
  }
  return imported;
}

}  // namespace afo
