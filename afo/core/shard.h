// A shard of an embedding table: an index, its rows and a lock.
//
// Lookups share the lock, inserts and updates have it alone, so a row is never read half written, and a snapshot of it is
// one instant's. Row numbers that a lookup returned stay valid while the shard grows; an update checks them by the key,
// since a row may have been removed in between.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "afo/core/admission.h"
#include "afo/core/admission_candidates.h"
#include "afo/core/counting_bloom.h"
#include "afo/core/index.h"
#include "afo/core/initializer.h"
#include "afo/core/optimizer.h"
#include "afo/core/row_store.h"
#include "afo/core/snapshot.h"

namespace afo {

enum class [[nodiscard]] Status { kOk, kOutOfMemory };

struct TableOptions {
  std::int32_t dim = 0;  // 1 to kMaxDim
  OptimizerOptions optimizer = {};
  InitializerOptions initializer = {};
  WeightType weights = WeightType::kFloat32;
  int shard_bits = 4;  // 0 to kMaxShardBits
  AdmissionOptions admission = {};

  bool operator==(const TableOptions&) const = default;
};

// What all shards of a table have in common.
struct TableSpec {
  explicit TableSpec(const TableOptions& options);

  const TableOptions options;
  const RowLayout layout;
  const Initializer initializer;
  // Of the changes from now on; a row has it modulo 256.
  std::atomic<std::uint64_t> epoch{0};

  std::uint8_t row_epoch() const { return static_cast<std::uint8_t>(epoch.load(std::memory_order_relaxed)); }
  bool ChangedSince(std::uint8_t row_epoch, std::int64_t since) const;
};

// Those keys of a batch that are a shard's: keys[positions[i]] for each i below `count`.
struct ShardKeys {
  const std::int64_t* keys = nullptr;
  const std::uint32_t* positions = nullptr;
  std::uint32_t count = 0;

  std::int64_t key(std::uint32_t i) const { return keys[positions[i]]; }
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

// Thread-safe. Locks of neighbours on one line of the cache would cost each other's threads time.
class alignas(64) Shard {
 public:
  // `number`: among the table's shards. The spec outlives it.
  Shard(const TableSpec& spec, std::int32_t number);

  std::size_t size() const;
  std::size_t bytes() const;

  // Weights and row numbers. A new key gets its first values, or, where keys have to be admitted, no row.
  Status LookupOrInsert(const ShardKeys& keys, const LookupOutput& to);
  // The same without inserting: an absent key has its first values, or where keys have to be admitted the default ones,
  // and kNoRow.
  void Lookup(const ShardKeys& keys, const LookupOutput& to) const;
  // See `Table::Apply`.
  Status Apply(const ShardKeys& keys, const RowGradients& of, const Update& update, const StepInfo& info);

  // Whether the key was there.
  bool Remove(std::int64_t key);
  // Removes rows last updated before `oldest`, or whose squared weights sum to less than `least`, and candidates before
  // `oldest`; returns how many rows.
  std::int64_t EvictUnfit(std::uint32_t oldest, float least);
  // Removes the longest unused rows above `capacity`; returns how many.
  std::int64_t EvictSurplus(std::size_t capacity);
  // Removes all, gives the memory back, and forgets removals.
  void Clear();

  // See `Table::Export`; `range.shard` is this one.
  Exported Export(const ExportRange& range, RowBlock block) const;
  Exported ExportCandidates(const ExportRange& range, RowBlock block) const;
  Exported ExportCells(const ExportRange& range, RowBlock block) const;
  RowBlock ExportRemoved(std::int64_t since, RowBlock block) const;
  void ForgetRemoved(std::uint64_t before);

  // One key of a block; false when there is no memory.
  [[nodiscard]] bool ImportRow(const RowBlock& block, std::size_t i);
  [[nodiscard]] bool ImportCandidate(const RowBlock& block, std::size_t i);
  void ImportCell(const RowBlock& block, std::size_t i);

 private:
  struct Removal {
    std::int64_t key;
    std::uint64_t epoch;
  };

  // All below: the lock is held.

  // Fetches the floats of one place of a batch: they are as cold as the rows, and no other order is better for both.
  void FetchFloats(const float* first, std::size_t place) const;
  // Calls found(i, row) for each key, in order. Before, it fetches `wanted` bytes of the row, and the floats at the key's
  // place in `beside`.
  template <typename Found>
  void FindAll(const ShardKeys& keys, std::size_t wanted, const float* beside, Found found) const;
  void CopyRow(std::uint32_t row, std::size_t place, const LookupOutput& to) const;
  bool Reserve(std::size_t count);
  // Weights that a row begins with, and the slots of those.
  void BeginRow(std::uint32_t row, const float* weights);
  std::uint32_t NewRow(std::int64_t key, std::uint64_t hash);
  // Precondition: room for it is reserved.
  std::uint32_t FindOrInsert(std::int64_t key);
  std::uint32_t RowOf(std::int64_t key) const;
  void RemoveRow(std::uint32_t row);
  void Resolve(const ShardKeys& keys, const RowGradients& of, std::uint32_t* found) const;
  // Keys that have no row get one; false when there is no memory.
  bool InsertAbsent(const ShardKeys& keys, std::uint32_t* found);
  // Keys that have no row are counted, and get one if that admits them; false when there is no memory.
  bool CountAbsent(const ShardKeys& keys, const std::uint32_t* counts, const StepInfo& info, std::uint32_t* found);
  bool CountOne(std::int64_t key, std::uint32_t count, std::uint32_t step);
  void ApplyBatch(const ShardKeys& keys, const std::uint32_t* found, const RowGradients& of, const Update& update,
                  const StepInfo& info);

  const TableSpec& spec_;
  const std::int32_t number_;
  mutable std::shared_mutex mutex_;
  Index index_;
  RowStore rows_;
  Candidates candidates_;
  CountingBloom bloom_;
  std::vector<Removal> removed_;
};

}  // namespace afo
