#include "table.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "kernels.h"

namespace afo {
namespace {

// Keys whose memory is on its way at once: enough to hide a miss, and few enough that nothing is pushed out again.
constexpr std::uint32_t kBatch = 64;
constexpr std::size_t kCacheLine = 64;

void Fetch(const void* first, std::size_t bytes) {
  const auto* at = static_cast<const char*>(first);
  for (std::size_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(at + i);
  __builtin_prefetch(at + bytes - 1);
}

// Passes through AdaGrad's decay between two steps. A row that a late worker touches with an older step decays nothing.
std::uint32_t Decays(const OptimizerOptions& options, std::uint32_t before, std::uint32_t now) {
  return now > before ? now / options.decay_steps - before / options.decay_steps : 0;
}

}  // namespace

Table::Table(const TableOptions& options)
    : options_(options),
      layout_{options.dim, options.dim * (1 + SlotsOf(options.optimizer.rule))},
      initializer_(options.initializer) {
  for (int i = 0; i < 1 << options.shard_bits; ++i) shards_.push_back(std::make_unique<Shard>(layout_));
}

std::int64_t Table::size() const {
  std::int64_t all = 0;
  for (const auto& shard : shards_) {
    std::shared_lock lock(shard->mutex);
    all += static_cast<std::int64_t>(shard->index.size());
  }
  return all;
}

std::size_t Table::bytes() const {
  std::size_t all = 0;
  for (const auto& shard : shards_) {
    std::shared_lock lock(shard->mutex);
    all += shard->index.bytes() + shard->rows.bytes();
  }
  return all;
}

void Table::OrderByShard(const std::int64_t* keys, std::int64_t count, ShardOrder* order) const {
  const auto shards = static_cast<std::uint32_t>(shards_.size());
  const auto n = static_cast<std::uint32_t>(count);
  order->positions.resize(n);
  order->starts.assign(shards + 1, 0);
  thread_local std::vector<std::uint8_t> owners;
  owners.resize(n);
  std::uint32_t* ends = order->starts.data() + 1;
  for (std::uint32_t i = 0; i < n; ++i) {
    owners[i] = static_cast<std::uint8_t>(ShardOf(HashOf(keys[i]), options_.shard_bits));
    ++ends[owners[i]];
  }
  for (std::uint32_t s = 1; s < shards; ++s) ends[s] += ends[s - 1];
  std::uint32_t next[kMaxShards];
  std::copy_n(order->starts.data(), shards, next);
  for (std::uint32_t i = 0; i < n; ++i) order->positions[next[owners[i]]++] = i;
}

std::uint32_t Table::FindAll(const Shard& shard, const std::uint32_t* positions, std::uint32_t count,
                             const std::int64_t* keys, std::uint32_t* found) const {
  if (shard.index.bytes() == 0) {
    std::fill_n(found, count, kNoRow);
    return count;
  }
  std::uint64_t hashes[kBatch];
  const std::size_t wanted = sizeof(RowHeader) + static_cast<std::size_t>(layout_.dim) * sizeof(float);
  for (std::uint32_t i = 0; i < count; ++i) {
    hashes[i] = HashOf(keys[positions[i]]);
    __builtin_prefetch(shard.index.home(hashes[i]));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    found[i] = shard.index.Guess(hashes[i]);
    if (found[i] != kNoRow) Fetch(shard.rows.header(found[i]), wanted);
  }
  std::uint32_t missing = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::int64_t key = keys[positions[i]];
    if (found[i] == kNoRow || shard.rows.header(found[i])->key != key) {
      found[i] = shard.index.Find(key, hashes[i], shard.rows);
    }
    missing += found[i] == kNoRow;
  }
  return missing;
}

std::uint32_t Table::NewRow(Shard& shard, std::int64_t key, std::uint64_t hash) {
  const std::uint32_t row = shard.rows.Take();
  RowHeader* header = shard.rows.header(row);
  header->key = key;
  header->set_counters(0, epoch_.load(std::memory_order_relaxed));
  initializer_.Fill(key, shard.rows.values(row), layout_.dim);
  FillSlots(options_.optimizer, shard.rows.values(row), layout_.dim);
  shard.index.Insert(hash, row);
  return row;
}

bool Table::InsertMissing(Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                          std::uint32_t* found) {
  const auto missing = static_cast<std::size_t>(std::count(found, found + count, kNoRow));
  if (!shard.rows.Reserve(missing) || !shard.index.Reserve(missing, shard.rows)) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (found[i] != kNoRow) continue;
    const std::int64_t key = keys[positions[i]];
    const std::uint64_t hash = HashOf(key);
    // Again, for another thread may have inserted it, or this batch has it twice.
    found[i] = shard.index.Find(key, hash, shard.rows);
    if (found[i] == kNoRow) found[i] = NewRow(shard, key, hash);
  }
  return true;
}

Status Table::LookupOrInsert(const ShardOrder& order, std::int32_t shard_number, const std::int64_t* keys,
                             float* values, std::uint32_t* rows) {
  Shard& shard = *shards_[shard_number];
  const std::size_t width = static_cast<std::size_t>(layout_.dim) * sizeof(float);
  std::uint32_t found[kBatch];
  const auto copy = [&](const std::uint32_t* positions, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::size_t at = positions[i];
      std::memcpy(values + at * layout_.dim, shard.rows.values(found[i]), width);
      if (rows != nullptr) rows[at] = found[i];
    }
  };
  std::shared_lock reading(shard.mutex);
  for (std::uint32_t at = order.starts[shard_number], end = order.starts[shard_number + 1]; at < end; at += kBatch) {
    const std::uint32_t* positions = order.positions.data() + at;
    const std::uint32_t n = std::min(kBatch, end - at);
    if (FindAll(shard, positions, n, keys, found) == 0) {
      copy(positions, n);
      continue;
    }
    reading.unlock();
    {
      std::unique_lock writing(shard.mutex);
      // Between the locks another thread may have removed a key, and given its row to another.
      DropStale(shard, positions, n, keys, found);
      if (!InsertMissing(shard, positions, n, keys, found)) return Status::kOutOfMemory;
      copy(positions, n);
    }
    reading.lock();
  }
  return Status::kOk;
}

void Table::Lookup(const ShardOrder& order, std::int32_t shard_number, const std::int64_t* keys, float* values,
                   std::uint32_t* rows) const {
  const Shard& shard = *shards_[shard_number];
  const std::size_t width = static_cast<std::size_t>(layout_.dim) * sizeof(float);
  std::uint32_t found[kBatch];
  std::shared_lock reading(shard.mutex);
  for (std::uint32_t at = order.starts[shard_number], end = order.starts[shard_number + 1]; at < end; at += kBatch) {
    const std::uint32_t* positions = order.positions.data() + at;
    const std::uint32_t n = std::min(kBatch, end - at);
    FindAll(shard, positions, n, keys, found);
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::size_t place = positions[i];
      float* target = values + place * layout_.dim;
      if (found[i] == kNoRow) {
        initializer_.Fill(keys[place], target, layout_.dim);
      } else {
        std::memcpy(target, shard.rows.values(found[i]), width);
      }
      if (rows != nullptr) rows[place] = found[i];
    }
  }
}

Update Table::NextUpdate(float schedule) {
  return UpdateOf(options_.optimizer, schedule, powers_.fetch_add(1, std::memory_order_relaxed) + 1);
}

void Table::Resolve(const Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                    const std::uint32_t* rows, std::uint32_t* found) const {
  const std::size_t wanted = shard.rows.stride();
  for (std::uint32_t i = 0; i < count; ++i) {
    found[i] = rows[positions[i]] < shard.rows.end() ? rows[positions[i]] : kNoRow;
    if (found[i] != kNoRow) Fetch(shard.rows.header(found[i]), wanted);
  }
  DropStale(shard, positions, count, keys, found);
}

void Table::DropStale(const Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                      std::uint32_t* found) const {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (found[i] == kNoRow) continue;
    const RowHeader& header = *shard.rows.header(found[i]);
    if (header.key != keys[positions[i]] || header.is_free()) found[i] = kNoRow;
  }
}

void Table::ApplyBatch(Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::uint32_t* found,
                       const float* gradients, const std::uint32_t* counts, const Update& update,
                       const Moment& moment) {
  float* weights[kBatch];
  const float* changes[kBatch];
  std::uint32_t decays[kBatch];
  const std::uint8_t epoch = epoch_.load(std::memory_order_relaxed);
  const bool decaying = options_.optimizer.rule == Rule::kAdagradDecay;
  for (std::uint32_t i = 0; i < count; ++i) {
    RowHeader* header = shard.rows.header(found[i]);
    const std::size_t place = positions[i];
    weights[i] = shard.rows.values(found[i]);
    changes[i] = gradients + place * layout_.dim;
    if (decaying) decays[i] = Decays(options_.optimizer, header->step, moment.step);
    header->step = std::max(header->step, moment.step);
    header->set_counters(std::uint64_t{header->frequency()} + (counts == nullptr ? 1 : counts[place]), epoch);
  }
  ActiveKernels().apply[static_cast<int>(options_.optimizer.rule)](options_.optimizer, update, weights, changes,
                                                                   decaying ? decays : nullptr,
                                                                   static_cast<std::int32_t>(count), layout_.dim);
}

Status Table::Apply(const ShardOrder& order, std::int32_t shard_number, const std::int64_t* keys,
                    const std::uint32_t* rows, const float* gradients, const std::uint32_t* counts,
                    const Update& update, const Moment& moment) {
  Shard& shard = *shards_[shard_number];
  std::uint32_t found[kBatch];
  std::unique_lock writing(shard.mutex);
  for (std::uint32_t at = order.starts[shard_number], end = order.starts[shard_number + 1]; at < end; at += kBatch) {
    const std::uint32_t* positions = order.positions.data() + at;
    const std::uint32_t n = std::min(kBatch, end - at);
    if (rows == nullptr) {
      FindAll(shard, positions, n, keys, found);
      for (std::uint32_t i = 0; i < n; ++i) {
        if (found[i] != kNoRow) Fetch(shard.rows.header(found[i]), shard.rows.stride());
      }
    } else {
      Resolve(shard, positions, n, keys, rows, found);
    }
    if (!InsertMissing(shard, positions, n, keys, found)) return Status::kOutOfMemory;
    ApplyBatch(shard, positions, n, found, gradients, counts, update, moment);
  }
  return Status::kOk;
}

bool Table::RemoveOne(std::int64_t key, std::uint64_t hash) {
  Shard& shard = *shards_[ShardOf(hash, options_.shard_bits)];
  std::unique_lock writing(shard.mutex);
  if (shard.index.bytes() == 0) return false;
  const std::uint32_t row = shard.index.Find(key, hash, shard.rows);
  if (row == kNoRow) return false;
  shard.index.Remove(hash, row);
  shard.rows.Free(row);
  // Nobody asks for removals before the first epoch began: there is no checkpoint that a delta could stand on.
  if (keeps_removals_.load(std::memory_order_relaxed)) {
    shard.removed.push_back({key, epoch_.load(std::memory_order_relaxed)});
  }
  return true;
}

std::int64_t Table::Remove(const std::int64_t* keys, std::int64_t count) {
  std::int64_t removed = 0;
  for (std::int64_t i = 0; i < count; ++i) removed += RemoveOne(keys[i], HashOf(keys[i]));
  return removed;
}

}  // namespace afo
