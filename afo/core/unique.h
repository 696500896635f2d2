// The different keys of a batch, by server and table, and for each id of the batch the place of its key: what would be
// a unique, two partitions and a stitch for each table, in one operation over all features.
//
// Ids are first scattered to buckets by (server, table, a few bits of the hash) so small that a bucket's hash table
// stays in the first-level cache; then each bucket finds its different keys. The keys of a server come out table by
// table, and in the order of the hash, which is that of a table's shards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "afo/core/slot_map.h"

namespace afo {

// Servers that a place can name are few, so it keeps its bits for the number behind: place = server << shift | number.
inline int PlaceShift(std::uint32_t servers) {
  return servers <= 1 ? 31 : 31 - (32 - __builtin_clz(servers - 1));
}

// Ids of one table, which count as behind those of the runs before.
struct IdRun {
  const std::int64_t* ids;
  std::int64_t count;
  std::int32_t table;
};

// Valid until the next run of the partition that they are of.
struct UniqueKeys {
  // Of all servers, one behind the other; within a server by table.
  std::span<const std::int64_t> keys;
  // How often each of them was in the batch.
  std::span<const std::uint32_t> counts;
  // [servers][tables + 1]: where in the server's keys a table begins; the last is their number.
  std::span<const std::int32_t> splits;
};

// Scratch that is kept from batch to batch, for fresh memory costs more than the work on it. Not thread-safe.
class UniquePartition {
 public:
  // The place of the i-th id of all runs goes to places[i]: server << PlaceShift(servers) | its number among that
  // server's keys of its table. Nothing when a batch has more different keys of a table than a place can count.
  // Preconditions: a table at least, and runs of these tables.
  [[nodiscard]] std::optional<UniqueKeys> Run(const std::vector<IdRun>& runs, std::int32_t tables, const SlotMap& slots,
                                              std::int32_t* places);

 private:
  struct Item {
    std::int64_t key;
    std::uint32_t hash;
    std::uint32_t position;
  };

  void Plan(const std::vector<IdRun>& runs, std::int32_t tables, std::uint32_t servers);
  void Scatter(const std::vector<IdRun>& runs, const SlotMap& slots);
  // Of each id its bucket, and how many ids each has.
  template <typename OwnerOf>
  void Count(const std::vector<IdRun>& runs, const OwnerOf& owner_of);
  // Returns how many; writes them, their counts, and the places of their ids.
  std::uint32_t Different(std::size_t bucket, std::int32_t first_place, std::int64_t* keys, std::uint32_t* counts,
                          std::int32_t* places);

  std::vector<int> sub_bits_;               // [tables]
  std::vector<std::uint32_t> first_bucket_;  // [servers][tables]
  std::vector<std::uint32_t> starts_;        // [buckets + 1]
  std::vector<std::uint32_t> bucket_of_;     // [ids]
  std::vector<Item> items_;
  std::vector<std::uint32_t> next_;          // [buckets]
  std::vector<std::uint32_t> slots_;
  // Of the last batch; room for as many keys as a batch has ids stays, for to make it anew is to write zeros there.
  std::vector<std::int64_t> keys_;
  std::vector<std::uint32_t> counts_;
  std::vector<std::int32_t> splits_;         // [servers][tables + 1]
};

}  // namespace afo
