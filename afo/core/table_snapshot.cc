// What of a table goes to a checkpoint, and comes back.

#include <algorithm>
#include <cstring>
#include <mutex>

#include "afo/core/table.h"

namespace afo {

bool Table::ChangedSince(std::uint8_t epoch, std::int64_t since) const {
  const std::uint64_t now = epoch_.load(std::memory_order_relaxed);
  const std::uint64_t passed = now - static_cast<std::uint64_t>(since);
  return since == kAllEpochs || passed > 0xff || static_cast<std::uint8_t>(now - epoch) <= passed;
}

bool Table::Export(std::int32_t shard_number, std::uint32_t* cursor, std::uint32_t most, std::int64_t since,
                   RowBlock* block) const {
  const Shard& shard = *shards_[shard_number];
  std::shared_lock reading(shard.mutex);
  block->floats = static_cast<std::uint32_t>(layout_.floats);
  std::uint32_t taken = 0;
  for (; *cursor < shard.rows.end() && taken < most; ++*cursor) {
    const RowHeader& header = *shard.rows.header(*cursor);
    if (header.is_free() || !ChangedSince(header.epoch(), since)) continue;
    const float* values = shard.rows.values(*cursor);
    block->keys.push_back(header.key);
    block->steps.push_back(header.step);
    block->frequencies.push_back(header.frequency());
    block->values.insert(block->values.end(), values, values + layout_.floats);
    ++taken;
  }
  return *cursor < shard.rows.end();
}

bool Table::ExportCandidates(std::int32_t shard_number, std::uint32_t* cursor, std::uint32_t most, std::int64_t since,
                             RowBlock* block) const {
  const Shard& shard = *shards_[shard_number];
  std::shared_lock reading(shard.mutex);
  std::uint32_t taken = 0;
  for (; *cursor < shard.candidates.end() && taken < most; ++*cursor) {
    const RowHeader& header = shard.candidates.header(*cursor);
    if (header.is_free() || !ChangedSince(header.epoch(), since)) continue;
    block->keys.push_back(header.key);
    block->steps.push_back(header.step);
    block->frequencies.push_back(header.frequency());
    ++taken;
  }
  return *cursor < shard.candidates.end();
}

bool Table::ExportCells(std::int32_t shard_number, std::uint32_t* cursor, std::uint32_t most, std::int64_t since,
                        RowBlock* block) const {
  const Shard& shard = *shards_[shard_number];
  std::shared_lock reading(shard.mutex);
  const CountingBloom& bloom = shard.bloom;
  block->floats = bloom.shape().cell_bytes / sizeof(float);
  std::uint32_t taken = 0;
  for (; *cursor < bloom.cells() && taken < most; ++*cursor) {
    const std::vector<std::uint8_t>& counters = bloom.cell(*cursor);
    if (counters.empty() || !ChangedSince(bloom.epoch(*cursor), since)) continue;
    block->keys.push_back(bloom.NumberOf(*cursor, shard_number));
    block->steps.push_back(0);
    block->frequencies.push_back(0);
    block->values.resize(block->values.size() + block->floats);
    std::memcpy(block->values.data() + block->values.size() - block->floats, counters.data(), counters.size());
    ++taken;
  }
  return *cursor < bloom.cells();
}

void Table::ExportRemoved(std::int32_t shard_number, std::int64_t since, RowBlock* block) const {
  const Shard& shard = *shards_[shard_number];
  std::shared_lock reading(shard.mutex);
  block->floats = static_cast<std::uint32_t>(layout_.floats);
  for (const Removal& removal : shard.removed) {
    if (static_cast<std::int64_t>(removal.epoch) >= since) block->removed.push_back(removal.key);
  }
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

std::int64_t Table::Import(const RowBlock& block, std::uint32_t server, std::uint32_t servers) {
  if (block.kind == BlockKind::kCells) {
    ImportCells(block, server, servers);
    return 0;
  }
  const bool candidates = block.kind == BlockKind::kCandidates;
  for (const std::int64_t key : block.removed) {
    const std::uint64_t hash = HashOf(key);
    if (OwnerOf(hash, servers) == server) RemoveOne(key, hash);
  }
  std::int64_t imported = 0;
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    const std::uint64_t hash = HashOf(block.keys[i]);
    if (OwnerOf(hash, servers) != server) continue;
    if (!(candidates ? ImportCandidate(block, i, hash) : ImportRow(block, i, hash))) return -1;
    imported += candidates ? 0 : 1;
  }
  return imported;
}

}  // namespace afo
