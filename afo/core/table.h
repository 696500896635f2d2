// An embedding table: 64-bit keys, rows that come when they are first asked for, and one pass of memory for an update.
//
// A table is cut into shards, each an index, its rows and a lock. A batch is first ordered by shard; a shard is then
// worked on by one thread, in batches of keys whose memory is fetched before it is used. Lookups of a shard share its
// lock, inserts and updates have it alone, so a row is never read half written, and a snapshot of it is one instant's.
// Row numbers that a lookup returned stay valid while the table grows; an update checks them by the key, since a row
// may have been removed in between.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "afo/core/admission.h"
#include "afo/core/candidates.h"
#include "afo/core/counting_bloom.h"
#include "afo/core/index.h"
#include "afo/core/initializer.h"
#include "afo/core/optimizer.h"
#include "afo/core/row_store.h"
#include "afo/core/snapshot.h"

namespace afo {

constexpr std::int32_t kMaxShards = 1 << kMaxShardBits;

enum class [[nodiscard]] Status { kOk, kOutOfMemory };

struct TableOptions {
  std::int32_t dim = 0;  // 1 to kMaxDim
  OptimizerOptions optimizer = {};
  InitializerOptions initializer = {};
  int shard_bits = 4;  // 0 to kMaxShardBits
  AdmissionOptions admission = {};

  bool operator==(const TableOptions&) const = default;
};

// Positions of a batch by shard: those of shard s are positions[starts[s]] to positions[starts[s + 1] - 1].
struct ShardOrder {
  std::vector<std::uint32_t> positions;
  std::vector<std::uint32_t> starts;
};

// Where a lookup writes, by the positions of the batch's keys.
struct LookupOutput {
  float* values = nullptr;        // [keys][dim]: weights
  std::uint32_t* rows = nullptr;  // [keys]: row numbers; null where nobody wants them
};

// What an update says of each row, by the positions of the batch's keys.
struct RowGradients {
  const float* gradients = nullptr;       // [keys][dim]
  const std::uint32_t* rows = nullptr;    // [keys]: what the lookup wrote; null: not known
  const std::uint32_t* counts = nullptr;  // [keys]: how often a key was in the batch; null: once
};

// What it says of all.
struct StepInfo {
  float schedule = 1.0f;   // factor of the learning rate
  std::uint32_t step = 0;  // of the training, below kFreeStep
};

// The `since` of an export of everything.
constexpr std::int64_t kAllEpochs = -1;

// Which part of a shard is exported.
struct ExportRange {
  std::int32_t shard = 0;
  std::uint32_t first = 0;  // the number from which on, 0 or the `next` of another
  std::uint32_t most = 0;   // rows that the block then has at most
  std::int64_t since = kAllEpochs;  // what changed in that epoch or later alone
};

struct Exported {
  RowBlock block;
  std::optional<std::uint32_t> next;  // where to go on; nothing at the end of the shard
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

  const TableOptions& options() const { return options_; }
  const RowLayout& layout() const { return layout_; }
  std::int32_t shards() const { return static_cast<std::int32_t>(shards_.size()); }
  std::int64_t size() const;
  // Memory of indexes and rows that the kernel was asked for.
  std::size_t bytes() const;

  std::int64_t cell_bytes() const { return shards_.front()->bloom.shape().cell_bytes; }

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
  std::uint64_t BeginEpoch() { return epoch_.fetch_add(1) + 1; }
  std::uint64_t epoch() const { return epoch_.load(); }

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
  // Removes and overwrites what the block names, if `server` of `servers` owns it; the rest is passed over. Returns how
  // many rows are here now of the block's, or nothing when there is no memory for them. Precondition: `floats` of a block
  // of rows is the table's, or its `dim`: the slots then begin as those of a new row with these weights.
  [[nodiscard]] std::optional<std::int64_t> Import(const RowBlock& block, std::uint32_t server, std::uint32_t servers);

  // Removes all rows, and gives their memory back. Not noted as removals: what stands on a checkpoint ends here.
  void Clear();

  std::uint64_t powers() const { return powers_.load(std::memory_order_relaxed); }
  void set_powers(std::uint64_t powers) { powers_.store(powers, std::memory_order_relaxed); }

 private:
  struct Removal {
    std::int64_t key;
    std::uint64_t epoch;
  };

  // Locks of neighbours on one line of the cache would cost each other's threads time.
  struct alignas(64) Shard {
    Shard(RowLayout layout, const TableOptions& options) : rows(layout), bloom(options.admission, options.shard_bits) {}
    mutable std::shared_mutex mutex;
    Index index;
    RowStore rows;
    Candidates candidates;
    CountingBloom bloom;
    std::vector<Removal> removed;
  };

  // Fetches the floats of one place of a batch: they are as cold as the rows, and no other order is better for both.
  void FetchFloats(const float* first, std::size_t place) const;
  // Calls found(i, row) for each i below `count`, in order. Before, it fetches `wanted` bytes of the row, and the floats
  // at the key's place in `beside`.
  template <typename Found>
  void FindAll(const Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
               std::size_t wanted, const float* beside, Found found) const;
  void CopyRow(const Shard& shard, std::uint32_t row, std::size_t place, const LookupOutput& to) const;
  bool Reserve(Shard& shard, std::size_t count);
  std::uint32_t NewRow(Shard& shard, std::int64_t key, std::uint64_t hash);
  // Precondition: room for it is reserved.
  std::uint32_t FindOrInsert(Shard& shard, std::int64_t key);
  bool ChangedSince(std::uint8_t epoch, std::int64_t since) const;
  // Keys of `positions` that have no row get one; false when there is no memory.
  bool InsertAbsent(Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                    std::uint32_t* found);
  // Those of them that have none at all are counted, and get one if that admits them.
  bool CountAbsent(Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                   const std::uint32_t* counts, const StepInfo& info, std::uint32_t* found);
  std::uint32_t RowOf(const Shard& shard, std::int64_t key) const;
  bool CountOne(Shard& shard, std::int64_t key, std::uint32_t count, std::uint32_t step);
  void RemoveRow(Shard& shard, std::uint32_t row);
  std::int64_t EvictUnfit(Shard& shard, std::uint32_t oldest, float least);
  std::int64_t EvictSurplus(Shard& shard, std::size_t capacity);
  bool RemoveOne(std::int64_t key, std::uint64_t hash);
  bool ImportRow(const RowBlock& block, std::size_t i, std::uint64_t hash);
  bool ImportCandidate(const RowBlock& block, std::size_t i, std::uint64_t hash);
  void ImportCells(const RowBlock& block, std::uint32_t server, std::uint32_t servers);
  bool OwnsGroup(std::int64_t group, std::uint32_t server, std::uint32_t servers) const;
  void Resolve(const Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
               const RowGradients& of, std::uint32_t* found) const;
  void ApplyBatch(Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::uint32_t* found,
                  const RowGradients& of, const Update& update, const StepInfo& info);

  const TableOptions options_;
  const RowLayout layout_;
  const Initializer initializer_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::atomic<std::uint64_t> powers_{0};
  std::atomic<std::uint64_t> epoch_{0};
};

}  // namespace afo
