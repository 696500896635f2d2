#include "afo/core/batch.h"

#include <atomic>
#include <cassert>
#include <functional>

namespace afo {
namespace {

// Guesses in nanoseconds, to decide what is worth another thread.
constexpr std::int64_t kOrderCost = 4;
constexpr std::int64_t kRowCost = 60;

// The shards of all parts that have keys, each the work of one thread.
using ShardWork = std::function<void(std::size_t part, const ShardOrder& order, std::int32_t shard)>;

void ForEachShard(const std::vector<TablePart>& parts, const Parallel& parallel, const ShardWork& work) {
  // Kept, for fresh memory costs more than the work on it; many parts of one batch share them.
  thread_local std::vector<ShardOrder> kept;
  std::vector<ShardOrder>& orders = kept;
  if (orders.size() < parts.size()) orders.resize(parts.size());
  std::int64_t keys = 0;
  for (const TablePart& part : parts) keys += part.count;
  const auto count = static_cast<std::int64_t>(parts.size());
  parallel(count, count == 0 ? 0 : kOrderCost * keys / count, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      parts[i].table->OrderByShard({parts[i].keys, static_cast<std::size_t>(parts[i].count)}, &orders[i]);
    }
  });
  std::vector<std::pair<std::size_t, std::int32_t>> units;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::int32_t shard = 0; shard < parts[i].table->shards(); ++shard) {
      if (orders[i].starts[shard] < orders[i].starts[shard + 1]) units.emplace_back(i, shard);
    }
  }
  const auto all = static_cast<std::int64_t>(units.size());
  parallel(all, all == 0 ? 0 : kRowCost * keys / all, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t u = first; u < last; ++u) work(units[u].first, orders[units[u].first], units[u].second);
  });
}

}  // namespace

Status LookupOrInsert(const std::vector<TablePart>& parts, const std::vector<LookupOutput>& to,
                      const Parallel& parallel) {
  assert(to.size() == parts.size());
  std::atomic<bool> failed{false};
  ForEachShard(parts, parallel, [&](std::size_t i, const ShardOrder& order, std::int32_t shard) {
    const Status status = parts[i].table->LookupOrInsert(order, shard, parts[i].keys, to[i]);
    if (status != Status::kOk) failed.store(true, std::memory_order_relaxed);
  });
  return failed.load() ? Status::kOutOfMemory : Status::kOk;
}

void Lookup(const std::vector<TablePart>& parts, const std::vector<LookupOutput>& to, const Parallel& parallel) {
  assert(to.size() == parts.size());
  ForEachShard(parts, parallel, [&](std::size_t i, const ShardOrder& order, std::int32_t shard) {
    parts[i].table->Lookup(order, shard, parts[i].keys, to[i]);
  });
}

Status Apply(const std::vector<TablePart>& parts, const std::vector<RowGradients>& of, const StepInfo& info,
             const Parallel& parallel) {
  assert(of.size() == parts.size());
  std::vector<Update> updates;
  updates.reserve(parts.size());
  // A table that this batch does not touch has not been updated.
  for (const TablePart& part : parts) {
    updates.push_back(part.count == 0 ? Update{} : part.table->NextUpdate(info.schedule));
  }
  std::atomic<bool> failed{false};
  ForEachShard(parts, parallel, [&](std::size_t i, const ShardOrder& order, std::int32_t shard) {
    const Status status = parts[i].table->Apply(order, shard, parts[i].keys, of[i], updates[i], info);
    if (status != Status::kOk) failed.store(true, std::memory_order_relaxed);
  });
  return failed.load() ? Status::kOutOfMemory : Status::kOk;
}

}  // namespace afo
