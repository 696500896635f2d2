#include "afo/core/table.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>

#include "afo/core/kernels.h"

namespace afo {
namespace {

// Keys between a request for memory and its use: enough to hide a miss, and few enough that nothing is pushed out again.
constexpr std::uint32_t kAhead = 24;
constexpr std::uint32_t kRing = 64;
static_assert(kRing > 2 * kAhead, "a key's place is not taken before it is done");
// Rows that one call of a kernel updates.
constexpr std::uint32_t kBatch = 32;
constexpr std::size_t kCacheLine = 64;

void Fetch(const void* first, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  const std::uintptr_t end = begin + bytes;
  for (std::uintptr_t line = begin & ~(kCacheLine - 1); line < end; line += kCacheLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(line));
  }
}

// Rows are short: a call of memcpy costs as much as the copy.
void CopyFloats(float* to, const float* from, std::int32_t count) {
  constexpr std::int32_t kAtOnce = 8;
  std::int32_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) std::memcpy(to + i, from + i, kAtOnce * sizeof(float));
  for (; i < count; ++i) to[i] = from[i];
}

// Passes through AdaGrad's decay between two steps. A row that a late worker touches with an older step decays nothing.
std::uint32_t Decays(const OptimizerOptions& options, std::uint32_t before, std::uint32_t now) {
  return now > before ? now / options.decay_steps - before / options.decay_steps : 0;
}

// Whether it was made for the table; what a caller promises, and costs nothing to look at.
[[maybe_unused]] bool IsOrderOf(const ShardOrder& order, const Table& table) {
  return order.starts.size() == static_cast<std::size_t>(table.shards()) + 1 &&
         order.starts.back() == order.positions.size();
}

// Those positions that have a row, and their rows; returns how many.
std::uint32_t KeepFound(const std::uint32_t* positions, std::uint32_t count, std::uint32_t* found,
                        std::uint32_t* kept) {
  std::uint32_t keeps = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (found[i] == kNoRow) continue;
    kept[keeps] = positions[i];
    found[keeps++] = found[i];
  }
  return keeps;
}

}  // namespace

Table::Table(const TableOptions& options)
    : options_(options),
      layout_{options.dim, options.dim * (1 + SlotsOf(options.optimizer.rule))},
      initializer_(options.initializer) {
  assert(options.dim >= 1 && options.dim <= kMaxDim);
  assert(options.shard_bits >= 0 && options.shard_bits <= kMaxShardBits);
  for (int i = 0; i < 1 << options.shard_bits; ++i) shards_.push_back(std::make_unique<Shard>(layout_, options_));
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
    all += shard->index.bytes() + shard->rows.bytes() + shard->candidates.bytes() + shard->bloom.bytes();
  }
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
    owners[i] = static_cast<std::uint8_t>(ShardOf(HashOf(keys[i]), options_.shard_bits));
    ++ends[owners[i]];
  }
  for (std::uint32_t s = 1; s < shards; ++s) ends[s] += ends[s - 1];
  std::uint32_t next[kMaxShards];
  std::copy_n(order->starts.data(), shards, next);
  for (std::uint32_t i = 0; i < n; ++i) order->positions[next[owners[i]]++] = i;
}

void Table::FetchFloats(const float* first, std::size_t place) const {
  Fetch(first + place * layout_.dim, static_cast<std::size_t>(layout_.dim) * sizeof(float));
}

template <typename Found>
void Table::FindAll(const Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                    std::size_t wanted, const float* beside, Found found) const {
  if (shard.index.bytes() == 0) {
    for (std::uint32_t i = 0; i < count; ++i) found(i, kNoRow);
    return;
  }
  // Three keys are in work at a time: one whose line is asked for, one whose row is, and one that is compared. A stream
  // of requests keeps the memory busier than batches that end in a wait each.
  std::uint64_t hashes[kRing];
  std::uint32_t guesses[kRing];
  const std::uint32_t ahead = std::min(kAhead, count);
  for (std::uint32_t i = 0; i < count + 2 * ahead; ++i) {
    if (i < count) {
      hashes[i % kRing] = HashOf(keys[positions[i]]);
      __builtin_prefetch(shard.index.home(hashes[i % kRing]));
    }
    if (i >= ahead && i < count + ahead) {
      const std::uint32_t place = (i - ahead) % kRing;
      guesses[place] = shard.index.Guess(hashes[place]);
      if (guesses[place] != kNoRow) Fetch(shard.rows.header(guesses[place]), wanted);
      FetchFloats(beside, positions[i - ahead]);
    }
    if (i >= 2 * ahead) {
      const std::uint32_t done = i - 2 * ahead;
      const std::int64_t key = keys[positions[done]];
      std::uint32_t row = guesses[done % kRing];
      if (row == kNoRow || shard.rows.header(row)->key != key) {
        row = shard.index.Find(key, hashes[done % kRing], shard.rows);
      }
      found(done, row);
    }
  }
}

std::uint32_t Table::NewRow(Shard& shard, std::int64_t key, std::uint64_t hash) {
  const std::uint32_t row = shard.rows.Take();
  RowHeader* header = shard.rows.header(row);
  header->key = key;
  header->set_counters(0, static_cast<std::uint8_t>(epoch_.load(std::memory_order_relaxed)));
  initializer_.Fill(key, shard.rows.values(row), layout_.dim);
  FillSlots(options_.optimizer, shard.rows.values(row), layout_.dim);
  shard.index.Insert(hash, row);
  return row;
}

bool Table::Reserve(Shard& shard, std::size_t count) {
  return shard.rows.Reserve(count) && shard.index.Reserve(count, shard.rows);
}

std::uint32_t Table::RowOf(const Shard& shard, std::int64_t key) const {
  return shard.index.bytes() == 0 ? kNoRow : shard.index.Find(key, HashOf(key), shard.rows);
}

std::uint32_t Table::FindOrInsert(Shard& shard, std::int64_t key) {
  const std::uint64_t hash = HashOf(key);
  const std::uint32_t row = shard.index.Find(key, hash, shard.rows);
  return row == kNoRow ? NewRow(shard, key, hash) : row;
}

void Table::CopyRow(const Shard& shard, std::uint32_t row, std::size_t place, const LookupOutput& to) const {
  CopyFloats(to.values + place * layout_.dim, shard.rows.values(row), layout_.dim);
  if (to.rows != nullptr) to.rows[place] = row;
}

Status Table::LookupOrInsert(const ShardOrder& order, std::int32_t shard_number, const std::int64_t* keys,
                             const LookupOutput& to) {
  if (!options_.admission.open()) {
    Lookup(order, shard_number, keys, to);
    return Status::kOk;
  }
  assert(IsOrderOf(order, *this) && shard_number >= 0 && shard_number < shards());
  Shard& shard = *shards_[shard_number];
  const std::uint32_t* positions = order.positions.data() + order.starts[shard_number];
  const std::uint32_t count = order.starts[shard_number + 1] - order.starts[shard_number];
  thread_local std::vector<std::uint32_t> kept;
  std::vector<std::uint32_t>& missing = kept;
  missing.clear();
  {
    std::shared_lock reading(shard.mutex);
    FindAll(shard, positions, count, keys, sizeof(RowHeader) + layout_.dim * sizeof(float), to.values,
            [&](std::uint32_t i, std::uint32_t row) {
              if (row == kNoRow) {
                missing.push_back(positions[i]);
              } else {
                CopyRow(shard, row, positions[i], to);
              }
            });
  }
  if (missing.empty()) return Status::kOk;
  std::unique_lock writing(shard.mutex);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    // Not for all at once: a batch may have the same new key a million times.
    if (i % kBatch == 0 && !Reserve(shard, std::min<std::size_t>(kBatch, missing.size() - i))) {
      return Status::kOutOfMemory;
    }
    // Looked for again: another thread may have inserted it, or this batch has it twice.
    const std::uint32_t place = missing[i];
    CopyRow(shard, FindOrInsert(shard, keys[place]), place, to);
  }
  return Status::kOk;
}

void Table::Lookup(const ShardOrder& order, std::int32_t shard_number, const std::int64_t* keys,
                   const LookupOutput& to) const {
  assert(IsOrderOf(order, *this) && shard_number >= 0 && shard_number < shards());
  const Shard& shard = *shards_[shard_number];
  const std::uint32_t* positions = order.positions.data() + order.starts[shard_number];
  const std::uint32_t count = order.starts[shard_number + 1] - order.starts[shard_number];
  std::shared_lock reading(shard.mutex);
  FindAll(shard, positions, count, keys, sizeof(RowHeader) + layout_.dim * sizeof(float), to.values,
          [&](std::uint32_t i, std::uint32_t row) {
            const std::size_t place = positions[i];
            if (row != kNoRow) return CopyRow(shard, row, place, to);
            float* own = to.values + place * layout_.dim;
            if (options_.admission.open()) {
              initializer_.Fill(keys[place], own, layout_.dim);
            } else {
              std::fill_n(own, layout_.dim, options_.admission.default_value);
            }
            if (to.rows != nullptr) to.rows[place] = kNoRow;
          });
}

Update Table::NextUpdate(float schedule) {
  return UpdateOf(options_.optimizer, schedule, powers_.fetch_add(1, std::memory_order_relaxed) + 1);
}

void Table::Resolve(const Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                    const RowGradients& of, std::uint32_t* found) const {
  if (of.rows == nullptr) {
    FindAll(shard, positions, count, keys, shard.rows.stride(), of.gradients,
            [found](std::uint32_t i, std::uint32_t row) { found[i] = row; });
    return;
  }
  const auto fetch = [&](std::uint32_t i) {
    found[i] = of.rows[positions[i]] < shard.rows.end() ? of.rows[positions[i]] : kNoRow;
    if (found[i] != kNoRow) Fetch(shard.rows.header(found[i]), shard.rows.stride());
    FetchFloats(of.gradients, positions[i]);
  };
  const std::uint32_t ahead = std::min(kAhead, count);
  for (std::uint32_t i = 0; i < ahead; ++i) fetch(i);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i + ahead < count) fetch(i + ahead);
    if (found[i] == kNoRow) continue;
    const RowHeader& header = *shard.rows.header(found[i]);
    if (header.key != keys[positions[i]] || header.is_free()) found[i] = kNoRow;
  }
}

void Table::ApplyBatch(Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::uint32_t* found,
                       const RowGradients& of, const Update& update, const StepInfo& info) {
  float* weights[kBatch];
  const float* changes[kBatch];
  std::uint32_t decays[kBatch];
  const auto epoch = static_cast<std::uint8_t>(epoch_.load(std::memory_order_relaxed));
  const bool decaying = options_.optimizer.rule == Rule::kAdagradDecay;
  for (std::uint32_t i = 0; i < count; ++i) {
    RowHeader* header = shard.rows.header(found[i]);
    const std::size_t place = positions[i];
    weights[i] = shard.rows.values(found[i]);
    changes[i] = of.gradients + place * layout_.dim;
    if (decaying) decays[i] = Decays(options_.optimizer, header->step, info.step);
    header->step = std::max(header->step, info.step);
    header->set_counters(std::uint64_t{header->frequency()} + (of.counts == nullptr ? 1 : of.counts[place]), epoch);
  }
  const RowBatch batch{.rows = weights,
                       .gradients = changes,
                       .decays = decaying ? decays : nullptr,
                       .count = static_cast<std::int32_t>(count),
                       .dim = layout_.dim};
  ActiveKernels().apply[static_cast<int>(options_.optimizer.rule)](options_.optimizer, update, batch);
}

Status Table::Apply(const ShardOrder& order, std::int32_t shard_number, const std::int64_t* keys,
                    const RowGradients& of, const Update& update, const StepInfo& info) {
  assert(IsOrderOf(order, *this) && shard_number >= 0 && shard_number < shards());
  assert(info.step < kFreeStep);
  Shard& shard = *shards_[shard_number];
  std::uint32_t found[kBatch];
  std::unique_lock writing(shard.mutex);
  for (std::uint32_t at = order.starts[shard_number], end = order.starts[shard_number + 1]; at < end; at += kBatch) {
    const std::uint32_t* positions = order.positions.data() + at;
    const std::uint32_t n = std::min(kBatch, end - at);
    Resolve(shard, positions, n, keys, of, found);
    if (std::find(found, found + n, kNoRow) == found + n) {
      ApplyBatch(shard, positions, n, found, of, update, info);
    } else if (options_.admission.open()) {
      if (!InsertAbsent(shard, positions, n, keys, found)) return Status::kOutOfMemory;
      ApplyBatch(shard, positions, n, found, of, update, info);
    } else {
      if (!CountAbsent(shard, positions, n, keys, of.counts, info, found)) return Status::kOutOfMemory;
      std::uint32_t present[kBatch];
      const std::uint32_t kept = KeepFound(positions, n, found, present);
      ApplyBatch(shard, present, kept, found, of, update, info);
    }
  }
  return Status::kOk;
}

bool Table::InsertAbsent(Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                         std::uint32_t* found) {
  if (!Reserve(shard, static_cast<std::size_t>(std::count(found, found + count, kNoRow)))) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (found[i] == kNoRow) found[i] = FindOrInsert(shard, keys[positions[i]]);
  }
  return true;
}

}  // namespace afo
