// What several tests need: keys with any hash one likes, random numbers that every machine draws alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "afo/core/hash.h"
#include "afo/core/slot_map.h"

namespace afo::testing {

// The inverse of an odd number modulo 2^64, by Newton: each step doubles the right bits.
constexpr std::uint64_t Inverse(std::uint64_t odd) {
  std::uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}

// The key whose hash is `hash`. There is one, for `HashOf` is one to one; so whoever likes can make keys that meet.
inline std::int64_t KeyOf(std::uint64_t hash) {
  std::uint64_t x = hash;
  x ^= x >> 31 ^ x >> 62;
  x *= Inverse(0x94d049bb133111ebull);
  x ^= x >> 27 ^ x >> 54;
  x *= Inverse(0xbf58476d1ce4e5b9ull);
  x ^= x >> 30 ^ x >> 60;
  return static_cast<std::int64_t>(x - 0x9e3779b97f4a7c15ull);
}

// The parts of a hash, see hash.h. `home`: 0 is the first line of any index, 0xffffffff the last.
inline std::uint64_t HashFrom(std::uint64_t slot, std::uint64_t shard, std::uint64_t home, std::uint64_t tag) {
  return slot << 48 | shard << 40 | home << 8 | tag;
}

constexpr std::uint64_t kFirstLine = 0;
constexpr std::uint64_t kLastLine = 0xffffffff;

// Keys that would be "empty" or "removed" in many a hash table, and ends of types.
inline std::vector<std::int64_t> SpecialKeys() {
  return {0, -1, -2, 1, INT64_MIN, INT64_MAX, INT64_MIN + 1, INT32_MIN, INT32_MAX, 0xffffffffll, 0xfffffffell};
}

// Of equal ranges for so many servers each, and of others: ranges of a slot, of none at the beginning, in between and at
// the end.
inline std::vector<SlotMap> SlotMaps(std::initializer_list<std::uint32_t> servers) {
  std::vector<SlotMap> maps;
  for (const std::uint32_t count : servers) maps.push_back(SlotMap::EqualRanges(count));
  const std::vector<std::vector<std::int64_t>> uneven{
      {0, 60000}, {0, 0, 1, 20000}, {0, 7, 7, 30001, kVirtualSlots}, {0, kVirtualSlots}};
  for (const auto& starts : uneven) maps.push_back(SlotMap::FromStarts(starts, 0).map.value());
  return maps;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}

  std::uint64_t Bits() { return bits_(); }
  std::int64_t Key() { return static_cast<std::int64_t>(bits_()); }
  std::uint64_t Below(std::uint64_t end) { return bits_() % end; }
  // [-1, 1)
  float Float() { return static_cast<float>(static_cast<std::int64_t>(bits_() >> 40) - (1 << 23)) / (1 << 23); }
  std::vector<float> Floats(std::size_t count, float scale = 1) {
    std::vector<float> all(count);
    for (float& each : all) each = scale * Float();
    return all;
  }
  std::vector<std::int64_t> Keys(std::size_t count) {
    std::set<std::int64_t> all;
    while (all.size() < count) all.insert(Key());
    return {all.begin(), all.end()};
  }

 private:
  std::mt19937_64 bits_;  // the same numbers everywhere, unlike the distributions of <random>
};

// `count` different ones of these, or fewer where there are fewer.
inline std::vector<std::int64_t> Choose(const std::vector<std::int64_t>& keys, std::size_t count, Random* random) {
  std::vector<std::int64_t> all = keys;
  count = std::min(count, all.size());
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + random->Below(all.size() - i)]);
  all.resize(count);
  return all;
}

// How far counts are from an even spread, in deviations of what chance does: some -3 to 3 where they are even.
inline double Unevenness(const std::vector<std::uint32_t>& counts) {
  double all = 0, squares = 0;
  for (const std::uint32_t count : counts) all += count;
  const double mean = all / static_cast<double>(counts.size());
  for (const std::uint32_t count : counts) squares += (count - mean) * (count - mean) / mean;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (squares - freedom) / __builtin_sqrt(2 * freedom);
}

}  // namespace afo::testing
