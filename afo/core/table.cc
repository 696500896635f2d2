#include "afo/core/table.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace afo {
namespace {

// Whether it was made for the table; what a caller promises, and costs nothing to look at.
[[maybe_unused]] bool IsOrderOf(const ShardOrder& order, const Table& table) {
  return order.starts.size() == static_cast<std::size_t>(table.shards()) + 1 &&
         order.starts.back() == order.positions.size();
}

// Rows and candidates of an earlier step are unused for too long; 0 where none are.
std::uint32_t OldestKept(const EvictionOptions& options, std::uint32_t step) {
  return options.unused_steps > 0 && step > options.unused_steps ? step - options.unused_steps : 0;
}

}  // namespace

Table::Table(const TableOptions& options) : spec_(options), bloom_shape_(options.admission) {
  assert(options.dim >= 1 && options.dim <= kMaxDim);
  assert(options.shard_bits >= 0 && options.shard_bits <= kMaxShardBits);
  for (std::int32_t i = 0; i < 1 << options.shard_bits; ++i) shards_.push_back(std::make_unique<Shard>(spec_, i));
}

std::int64_t Table::size() const {
  std::int64_t all = 0;
  for (const auto& shard : shards_) all += static_cast<std::int64_t>(shard->size());
  return all;
}

std::size_t Table::bytes() const {
  std::size_t all = 0;
  for (const auto& shard : shards_) all += shard->bytes();
  return all;
}

void Table::OrderByShard(std::span<const std::int64_t> keys, ShardOrder* order) const {
  const auto shards = static_cast<std::uint32_t>(shards_.size());
  const auto n = static_cast<std::uint32_t>(keys.size());
  order->positions.resize(n);
  order->starts.assign(shards + 1, 0);
  thread_local std::vector<std::uint8_t> owners;
  owners.resize(n);
  std::uint32_t* ends = order->starts.data() + 1;
  for (std::uint32_t i = 0; i < n; ++i) {
    owners[i] = static_cast<std::uint8_t>(ShardOf(HashOf(keys[i]), spec_.options.shard_bits));
    ++ends[owners[i]];
  }
  for (std::uint32_t s = 1; s < shards; ++s) ends[s] += ends[s - 1];
  std::uint32_t next[kMaxShards];
  std::copy_n(order->starts.data(), shards, next);
  for (std::uint32_t i = 0; i < n; ++i) order->positions[next[owners[i]]++] = i;
}

ShardKeys Table::KeysOf(const ShardOrder& order, std::int32_t shard, const std::int64_t* keys) const {
  assert(IsOrderOf(order, *this) && shard >= 0 && shard < shards());
  const std::uint32_t first = order.starts[shard];
  return {.keys = keys, .positions = order.positions.data() + first, .count = order.starts[shard + 1] - first};
}

Status Table::LookupOrInsert(const ShardOrder& order, std::int32_t shard, const std::int64_t* keys,
                             const LookupOutput& to) {
  return shards_[shard]->LookupOrInsert(KeysOf(order, shard, keys), to);
}

void Table::Lookup(const ShardOrder& order, std::int32_t shard, const std::int64_t* keys,
                   const LookupOutput& to) const {
  shards_[shard]->Lookup(KeysOf(order, shard, keys), to);
}

Update Table::NextUpdate(float schedule) {
  return UpdateOf(spec_.options.optimizer, schedule, powers_.fetch_add(1, std::memory_order_relaxed) + 1);
}

Status Table::Apply(const ShardOrder& order, std::int32_t shard, const std::int64_t* keys, const RowGradients& of,
                    const Update& update, const StepInfo& info) {
  return shards_[shard]->Apply(KeysOf(order, shard, keys), of, update, info);
}

std::int64_t Table::Remove(std::span<const std::int64_t> keys) {
  std::int64_t removed = 0;
  for (const std::int64_t key : keys) removed += ShardOfHash(HashOf(key)).Remove(key);
  return removed;
}

std::int64_t Table::Evict(const EvictionOptions& options, std::uint32_t step, std::uint32_t oldest) {
  std::int64_t evicted = 0;
  oldest = std::max(oldest, OldestKept(options, step));
  if (oldest > 0 || options.l2_weight > 0) {
    for (const auto& shard : shards_) evicted += shard->EvictUnfit(oldest, options.l2_weight);
  }
  if (options.capacity == 0 || size() <= options.capacity) return evicted;
  // Shards are nearly equal: each gives up what is above its share.
  const auto shards = static_cast<std::int64_t>(shards_.size());
  const auto share = static_cast<std::size_t>((options.capacity + shards - 1) / shards);
  for (const auto& shard : shards_) evicted += shard->EvictSurplus(share);
  return evicted;
}

void Table::Clear() {
  for (const auto& shard : shards_) shard->Clear();
}

Exported Table::Export(const ExportRange& range, RowBlock block) const {
  assert(range.shard >= 0 && range.shard < shards());
  return shards_[range.shard]->Export(range, std::move(block));
}

Exported Table::ExportCandidates(const ExportRange& range, RowBlock block) const {
  assert(range.shard >= 0 && range.shard < shards());
  return shards_[range.shard]->ExportCandidates(range, std::move(block));
}

Exported Table::ExportCells(const ExportRange& range, RowBlock block) const {
  assert(range.shard >= 0 && range.shard < shards());
  return shards_[range.shard]->ExportCells(range, std::move(block));
}

RowBlock Table::ExportRemoved(std::int32_t shard, std::int64_t since, RowBlock block) const {
  assert(shard >= 0 && shard < shards());
  return shards_[shard]->ExportRemoved(since, std::move(block));
}

void Table::ForgetRemoved(std::uint64_t before) {
  for (const auto& shard : shards_) shard->ForgetRemoved(before);
}

bool Table::OwnsGroup(std::int64_t group, const SlotRange& owned) const {
  if (group >> bloom_shape_.group_bits != 0) return false;  // what is shifted below would wrap
  const int bits = kSlotBits - bloom_shape_.group_bits;
  const auto number = static_cast<std::uint32_t>(group);
  return owned.Overlaps({.first = number << bits, .end = (number + 1) << bits});
}

// A cell that was cut between servers is held by each: counts of another's keys are only too high. A filter of another
// size has nothing to tell.
void Table::ImportCells(const RowBlock& block, const SlotRange& owned) {
  if (!spec_.options.admission.blooms() || block.floats * sizeof(float) != bloom_shape_.cell_bytes) return;
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    const std::int64_t number = block.keys[i];
    if (!OwnsGroup(number >> kMaxShardBits, owned)) continue;
    const auto low = static_cast<std::size_t>(number & ((1 << kMaxShardBits) - 1));
    shards_[low >> (kMaxShardBits - spec_.options.shard_bits)]->ImportCell(block, i);
  }
}

std::optional<std::int64_t> Table::Import(const RowBlock& block, const SlotRange& owned) {
  assert(owned.first <= owned.end && owned.end <= kVirtualSlots);
  if (block.kind == BlockKind::kCells) {
    ImportCells(block, owned);
    return 0;
  }
  const bool candidates = block.kind == BlockKind::kCandidates;
  assert(block.floats == (candidates ? 0 : static_cast<std::uint32_t>(spec_.layout.floats)) ||
         block.floats == static_cast<std::uint32_t>(spec_.layout.dim) || block.keys.empty());
  for (const std::int64_t key : block.removed) {
    const std::uint64_t hash = HashOf(key);
    if (owned.Contains(hash)) ShardOfHash(hash).Remove(key);
  }
  // A table that admits all keys has no use for them: its job was changed since.
  if (candidates && !spec_.options.admission.remembers()) return 0;
  std::int64_t imported = 0;
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    const std::uint64_t hash = HashOf(block.keys[i]);
    if (!owned.Contains(hash)) continue;
    Shard& shard = ShardOfHash(hash);
    if (!(candidates ? shard.ImportCandidate(block, i) : shard.ImportRow(block, i))) return std::nullopt;
    imported += candidates ? 0 : 1;
  }
  return imported;
}

}  // namespace afo
