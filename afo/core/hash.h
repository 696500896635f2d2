// What a key's bits decide, and nothing else may: one 64-bit hash, cut into parts that do not overlap.
//
//   63           48 47      40 39                    8 7       0
//   [ virtual slot ][ shard   ][ home line of index    ][ tag   ]
//
// A server owns a range of virtual slots (slot_map.h), a table on it is cut into shards, a shard's index starts to probe at the home
// line and compares tags. If two of them shared bits, the keys of one server or shard would crowd in a part of its
// index. Checkpoints are read by any number of servers, so these functions never change: tests hold golden values.
#pragma once

#include <cstdint>

namespace afo {

constexpr int kSlotBits = 16;
constexpr std::uint32_t kVirtualSlots = 1u << kSlotBits;
constexpr int kMaxShardBits = 8;

// Full avalanche, one to one: ids are often small, sequential or alike in their low bits.
// The finaliser of SplitMix64 (Steele, Lea and Flood 2014; constants by Stafford, "variant 13").
inline std::uint64_t Mix(std::uint64_t key) {
  key ^= key >> 30;
  key *= 0xbf58476d1ce4e5b9ull;
  key ^= key >> 27;
  key *= 0x94d049bb133111ebull;
  return key ^ (key >> 31);
}

// 0 would stay 0, so that key 0 had the tag, the line and the shard 0 in every table.
inline std::uint64_t HashOf(std::int64_t key) { return Mix(static_cast<std::uint64_t>(key) + 0x9e3779b97f4a7c15ull); }

inline std::uint32_t SlotOf(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 48); }

inline std::uint32_t ShardOf(std::uint64_t hash, int shard_bits) {
  return static_cast<std::uint32_t>(hash >> 40 & 0xff) >> (kMaxShardBits - shard_bits);
}

// Multiplication in place of a remainder: any number of lines, no doubling of memory at a power of two.
inline std::uint32_t HomeOf(std::uint64_t hash, std::uint32_t lines) {
  return static_cast<std::uint32_t>((hash >> 8 & 0xffffffffull) * lines >> 32);
}

// 1 to 255; 0 is a free place.
inline std::uint8_t TagOf(std::uint64_t hash) {
  const auto tag = static_cast<std::uint8_t>(hash);
  return tag == 0 ? 1 : tag;
}

}  // namespace afo
