// Which keys of a table lose their row: those that are named, and those that a policy finds.

#include <algorithm>
#include <mutex>
#include <utility>

#include "afo/core/table.h"

namespace afo {
namespace {

double SquaresOf(const float* weights, std::int32_t dim) {
  double sum = 0;
  for (std::int32_t i = 0; i < dim; ++i) sum += static_cast<double>(weights[i]) * weights[i];
  return sum;
}

// Rows and candidates of an earlier step are unused for too long; 0 where none are.
std::uint32_t OldestKept(const EvictionOptions& options, std::uint32_t step) {
  return options.unused_steps > 0 && step > options.unused_steps ? step - options.unused_steps : 0;
}

// Longest unused first, and of those the least seen.
std::uint64_t WorthOf(const RowHeader& header) {
  return std::uint64_t{header.step} << 24 | header.frequency();
}

}  // namespace

void Table::RemoveRow(Shard& shard, std::uint32_t row) {
  const std::int64_t key = shard.rows.header(row)->key;
  shard.index.Remove(HashOf(key), row);
  shard.rows.Free(row);
  // Nobody asks for removals before the first epoch began: there is no checkpoint that a delta could stand on.
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed);
  if (epoch > 0) shard.removed.push_back({key, epoch});
}

bool Table::RemoveOne(std::int64_t key, std::uint64_t hash) {
  Shard& shard = *shards_[ShardOf(hash, options_.shard_bits)];
  std::unique_lock writing(shard.mutex);
  const std::uint32_t row = RowOf(shard, key);
  if (row == kNoRow) return false;
  RemoveRow(shard, row);
  return true;
}

std::int64_t Table::Remove(std::span<const std::int64_t> keys) {
  std::int64_t removed = 0;
  for (const std::int64_t key : keys) removed += RemoveOne(key, HashOf(key));
  return removed;
}

std::int64_t Table::Evict(const EvictionOptions& options, std::uint32_t step, std::uint32_t oldest) {
  std::int64_t evicted = 0;
  oldest = std::max(oldest, OldestKept(options, step));
  for (const auto& shard : shards_) {
    if (oldest == 0 && options.l2_weight <= 0) break;
    std::unique_lock writing(shard->mutex);
    evicted += EvictUnfit(*shard, oldest, options.l2_weight);
    shard->candidates.DropBefore(oldest);
  }
  if (options.capacity == 0 || size() <= options.capacity) return evicted;
  // Shards are nearly equal: each gives up what is above its share.
  const auto shards = static_cast<std::int64_t>(shards_.size());
  for (const auto& shard : shards_) {
    std::unique_lock writing(shard->mutex);
    evicted += EvictSurplus(*shard, static_cast<std::size_t>((options.capacity + shards - 1) / shards));
  }
  return evicted;
}

std::int64_t Table::EvictUnfit(Shard& shard, std::uint32_t oldest, float least) {
  std::int64_t evicted = 0;
  for (std::uint32_t row = 0; row < shard.rows.end(); ++row) {
    const RowHeader& header = *shard.rows.header(row);
    if (header.is_free()) continue;
    const bool light = least > 0 && SquaresOf(shard.rows.values(row), layout_.dim) < least;
    if (header.step >= oldest && !light) continue;
    RemoveRow(shard, row);
    ++evicted;
  }
  return evicted;
}

std::int64_t Table::EvictSurplus(Shard& shard, std::size_t capacity) {
  if (shard.index.size() <= capacity) return 0;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> rows;
  rows.reserve(shard.index.size());
  for (std::uint32_t row = 0; row < shard.rows.end(); ++row) {
    const RowHeader& header = *shard.rows.header(row);
    if (!header.is_free()) rows.emplace_back(WorthOf(header), row);
  }
  const std::size_t surplus = rows.size() - capacity;
  std::nth_element(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(surplus), rows.end());
  for (std::size_t i = 0; i < surplus; ++i) RemoveRow(shard, rows[i].second);
  return static_cast<std::int64_t>(surplus);
}

}  // namespace afo
