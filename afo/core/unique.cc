#include "afo/core/unique.h"

#include <algorithm>
#include <cassert>

#include "afo/core/hash.h"

namespace afo {
namespace {

// Ids of a bucket, about: their hash table of 8 KiB and their keys fit in the first-level cache.
constexpr std::int64_t kBucketIds = 1024;
constexpr int kMaxSubBits = 8;

}  // namespace

// As if all ranges were equal: a server of twice the slots has buckets of twice the ids, which the next cache holds.
void UniquePartition::Plan(const std::vector<IdRun>& runs, std::int32_t tables, std::uint32_t servers) {
  std::vector<std::int64_t> ids(tables, 0);
  for (const IdRun& run : runs) {
    assert(run.table >= 0 && run.table < tables && run.count >= 0);
    ids[run.table] += run.count;
  }
  sub_bits_.assign(tables, 0);
  for (std::int32_t t = 0; t < tables; ++t) {
    while (sub_bits_[t] < kMaxSubBits && ids[t] > (kBucketIds * servers) << sub_bits_[t]) ++sub_bits_[t];
  }
  first_bucket_.resize(static_cast<std::size_t>(servers) * tables);
  std::uint32_t buckets = 0;
  for (std::uint32_t& first : first_bucket_) {
    first = buckets;
    buckets += 1u << sub_bits_[(&first - first_bucket_.data()) % tables];
  }
  starts_.assign(buckets + 1, 0);
}

// A bucket's bits follow those of the owner: the slot's range of a server, then the shard's.
template <typename OwnerOf>
void UniquePartition::Count(const std::vector<IdRun>& runs, const OwnerOf& owner_of) {
  const auto tables = static_cast<std::uint32_t>(sub_bits_.size());
  std::uint32_t* counts = starts_.data() + 1;
  std::uint32_t* bucket = bucket_of_.data();
  for (const IdRun& run : runs) {
    const int bits = sub_bits_[run.table];
    const std::uint32_t* first = first_bucket_.data() + run.table;
    for (const std::int64_t* id = run.ids; id < run.ids + run.count; ++id, ++bucket) {
      const std::uint64_t hash = HashOf(*id);
      *bucket = first[owner_of(hash) * tables] + ShardOf(hash, bits);
      ++counts[*bucket];
    }
  }
}

void UniquePartition::Scatter(const std::vector<IdRun>& runs, const SlotMap& slots) {
  std::size_t all = 0;
  for (const IdRun& run : runs) all += static_cast<std::size_t>(run.count);
  bucket_of_.resize(all);
  items_.resize(all);
  slots.Visit([&](const auto& owner_of) { Count(runs, owner_of); });
  for (std::size_t b = 1; b < starts_.size(); ++b) starts_[b] += starts_[b - 1];
  next_.assign(starts_.begin(), starts_.end() - 1);
  std::uint32_t* next = next_.data();
  Item* items = items_.data();
  std::uint32_t position = 0;
  for (const IdRun& run : runs) {
    for (const std::int64_t* id = run.ids; id < run.ids + run.count; ++id, ++position) {
      items[next[bucket_of_[position]]++] = Item{*id, static_cast<std::uint32_t>(HashOf(*id)), position};
    }
  }
}

std::uint32_t UniquePartition::Different(std::size_t bucket, std::int32_t first_place, std::int64_t* keys,
                                         std::uint32_t* counts, std::int32_t* places) {
  const Item* item = items_.data() + starts_[bucket];
  const Item* end = items_.data() + starts_[bucket + 1];
  std::uint32_t capacity = 16;
  while (capacity < 2 * (end - item)) capacity *= 2;
  slots_.assign(capacity, 0);
  std::uint32_t* slots = slots_.data();
  const std::uint32_t mask = capacity - 1;
  std::uint32_t found = 0;
  for (; item < end; ++item) {
    std::uint32_t at = item->hash & mask;
    while (slots[at] != 0 && keys[slots[at] - 1] != item->key) at = (at + 1) & mask;
    if (slots[at] == 0) {
      keys[found] = item->key;
      counts[found] = 0;
      slots[at] = ++found;
    }
    const std::uint32_t number = slots[at] - 1;
    ++counts[number];
    places[item->position] = first_place + static_cast<std::int32_t>(number);
  }
  return found;
}

std::optional<UniqueKeys> UniquePartition::Run(const std::vector<IdRun>& runs, std::int32_t tables, const SlotMap& slots,
                                               std::int32_t* places) {
  assert(tables >= 1);
  const std::uint32_t servers = slots.servers();
  Plan(runs, tables, servers);
  Scatter(runs, slots);
  if (keys_.size() < items_.size()) keys_.resize(items_.size());
  if (counts_.size() < items_.size()) counts_.resize(items_.size());
  splits_.assign(static_cast<std::size_t>(servers) * (tables + 1), 0);
  const int shift = PlaceShift(servers);
  std::size_t all = 0, bucket = 0;
  for (std::uint32_t server = 0; server < servers; ++server) {
    const std::size_t first_of_server = all;
    std::int32_t* splits = splits_.data() + static_cast<std::size_t>(server) * (tables + 1);
    for (std::int32_t table = 0; table < tables; ++table) {
      const std::size_t first_of_table = all;
      for (int sub = 0; sub < 1 << sub_bits_[table]; ++sub, ++bucket) {
        const auto number = static_cast<std::int32_t>(all - first_of_table);
        all += Different(bucket, static_cast<std::int32_t>(server << shift) + number, keys_.data() + all,
                         counts_.data() + all, places);
      }
      if (all - first_of_table >= std::size_t{1} << shift) return std::nullopt;
      splits[table + 1] = static_cast<std::int32_t>(all - first_of_server);
    }
  }
  return UniqueKeys{.keys = {keys_.data(), all}, .counts = {counts_.data(), all}, .splits = splits_};
}

}  // namespace afo
