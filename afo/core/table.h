// An embedding table: 64-bit keys, rows that come when they are first asked for, and one pass of memory for an update.
//
// A table is cut into shards (shard.h). A batch is first ordered by shard; a shard is then worked on by one thread, in
// batches of keys whose memory is fetched before it is used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "afo/core/shard.h"
#include "afo/core/slot_map.h"

namespace afo {

constexpr std::int32_t kMaxShards = 1 << kMaxShardBits;

// Positions of a batch by shard: those of shard s are positions[starts[s]] to positions[starts[s + 1] - 1].
struct ShardOrder {
  std::vector<std::uint32_t> positions;
  std::vector<std::uint32_t> starts;
};

// Which rows are removed, by any of these; 0 means not by this.
struct EvictionOptions {
  std::uint32_t unused_steps = 0;  // steps since the last update
  float l2_weight = 0.0f;          // sum of the squares of the weights that a row must reach
  std::int64_t capacity = 0;       // rows of the table on this server: the longest unused go
};

class Table {
 public:
  // Precondition: dim and shard_bits are in their ranges.
  explicit Table(const TableOptions& options);

  const TableOptions& options() const { return spec_.options; }
  const RowLayout& layout() const { return spec_.layout; }
  std::int32_t shards() const { return static_cast<std::int32_t>(shards_.size()); }
  std::int64_t size() const;
  // Memory of indexes and rows that the kernel was asked for.
  std::size_t bytes() const;

  std::int64_t cell_bytes() const { return bloom_shape_.cell_bytes; }

  // Into an order that the caller keeps from batch to batch: fresh memory costs more than the work on it.
  void OrderByShard(std::span<const std::int64_t> keys, ShardOrder* order) const;

  // `order`, here and below, is what `OrderByShard` made of the batch's `keys`.
  // For the keys of one shard: weights and row numbers. A new key gets its first values, or, where keys have to be
  // admitted, no row.
  Status LookupOrInsert(const ShardOrder& order, std::int32_t shard, const std::int64_t* keys, const LookupOutput& to);
  // The same without inserting: an absent key has its first values, or where keys have to be admitted the default ones,
  // and kNoRow.
  void Lookup(const ShardOrder& order, std::int32_t shard, const std::int64_t* keys, const LookupOutput& to) const;

  // One more update of this table: to be called once for a batch, before `Apply` of its shards. Thread-safe.
  Update NextUpdate(float schedule);
  // Applies gradients; the keys of a batch differ. Keys that are not there (any more) are inserted first. Where keys
  // have to be admitted, one that is not there is counted, and its gradient dropped: it was taken at the default values.
  // The row of a key that this admits begins with the first ones.
  Status Apply(const ShardOrder& order, std::int32_t shard, const std::int64_t* keys, const RowGradients& of,
               const Update& update, const StepInfo& info);

  // Returns how many of them were there.
  std::int64_t Remove(std::span<const std::int64_t> keys);
  // Removes rows, and candidates that are as long unused; returns how many rows. A shard at a time is locked. `oldest`:
  // what was last touched before this step goes in any case.
  std::int64_t Evict(const EvictionOptions& options, std::uint32_t step, std::uint32_t oldest = 0);

  // Begins a new epoch and returns it, 1 or more: rows and removals carry the epoch of their last change. Changes that a
  // later export of the same shard does not show are of this epoch.
  std::uint64_t BeginEpoch() { return spec_.epoch.fetch_add(1) + 1; }
  std::uint64_t epoch() const { return spec_.epoch.load(); }

  // Rows of a shard. They are whole and of one instant each; training goes on meanwhile. A row knows its epoch modulo
  // 256: an older one may look new, which costs bytes and nothing else. What comes is put behind what `block` has, so
  // that a block goes over several shards: to join blocks of a shard each took 40 % longer. Precondition, here and
  // below: a block that is not empty came from the same function, or for rows from `ExportRemoved`.
  [[nodiscard]] Exported Export(const ExportRange& range, RowBlock block = {}) const;
  // The same of keys that have no row yet: their counts and steps.
  [[nodiscard]] Exported ExportCandidates(const ExportRange& range, RowBlock block = {}) const;
  // The same of the counting Bloom filter's cells.
  [[nodiscard]] Exported ExportCells(const ExportRange& range, RowBlock block = {}) const;
  // Removals of a shard since an epoch.
  [[nodiscard]] RowBlock ExportRemoved(std::int32_t shard, std::int64_t since, RowBlock block = {}) const;
  // Removals before an epoch need not be known any more: a checkpoint without those keys is complete.
  void ForgetRemoved(std::uint64_t before);
  // Removes and overwrites what the block names of the slots that are `owned`; the rest is passed over. Returns how many
  // rows are here now of the block's, or nothing when there is no memory for them. Precondition: `floats` of a block of
  // rows is the table's, or its `dim`: the optimizer's slots then begin as those of a new row with these weights.
  [[nodiscard]] std::optional<std::int64_t> Import(const RowBlock& block, const SlotRange& owned);

  // Removes all rows, and gives their memory back. Not noted as removals: what stands on a checkpoint ends here.
  void Clear();

  std::uint64_t powers() const { return powers_.load(std::memory_order_relaxed); }
  void set_powers(std::uint64_t powers) { powers_.store(powers, std::memory_order_relaxed); }

 private:
  Shard& ShardOfHash(std::uint64_t hash) const { return *shards_[ShardOf(hash, spec_.options.shard_bits)]; }
  ShardKeys KeysOf(const ShardOrder& order, std::int32_t shard, const std::int64_t* keys) const;
  void ImportCells(const RowBlock& block, const SlotRange& owned);
  bool OwnsGroup(std::int64_t group, const SlotRange& owned) const;

  TableSpec spec_;
  const BloomShape bloom_shape_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::atomic<std::uint64_t> powers_{0};
};

}  // namespace afo
