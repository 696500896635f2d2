#include "afo/core/hash.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "afo/core/slot_map.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::HashFrom;
using testing::KeyOf;
using testing::Unevenness;

struct Golden {
  std::int64_t key;
  std::uint64_t hash;
  std::uint32_t slot, owner_of_3, owner_of_100, shard_of_16, line_of_1000;
  int tag;
};

// Never to be changed: checkpoints are cut by these values. The hashes of 0 and 1234567 are known from elsewhere, as
// the first number of SplitMix64 with these seeds.
const std::vector<Golden> kGolden = {
    {0, 0xe220a8397b1dcdafull, 57888, 2, 88, 10, 224, 175},
    {1, 0x910a2dec89025cc1ull, 37130, 1, 56, 2, 923, 193},
    {-1, 0xe4d971771b652c20ull, 58585, 2, 89, 7, 465, 32},
    {2, 0x975835de1c9756ceull, 38744, 1, 59, 3, 867, 206},
    {42, 0xbdd732262feb6e95ull, 48599, 2, 74, 3, 149, 149},
    {1234567, 0x599ed017fb08fc85ull, 22942, 1, 35, 13, 93, 133},
    {-1234567890123, 0xacecb5922b5baa84ull, 44268, 2, 67, 11, 570, 132},
    {2147483647, 0x61fa36a6261a4be7ull, 25082, 1, 38, 3, 649, 231},
    {4294967295, 0x73b13ba2aff181c0ull, 29617, 1, 45, 3, 635, 192},
    {INT64_MIN, 0x481ec0a212a9f3dbull, 18462, 0, 28, 12, 633, 219},
    {INT64_MAX, 0x2a67d7552e039ea7ull, 10855, 0, 16, 13, 332, 167},
};

TEST_CASE("what a key's hash says stays what it was") {
  for (const Golden& golden : kGolden) {
    CAPTURE(golden.key);
    const std::uint64_t hash = HashOf(golden.key);
    CHECK(hash == golden.hash);
    CHECK(SlotOf(hash) == golden.slot);
    CHECK(SlotMap::EqualRanges(1).OwnerOf(hash) == 0);
    CHECK(SlotMap::EqualRanges(3).OwnerOf(hash) == golden.owner_of_3);
    CHECK(SlotMap::EqualRanges(100).OwnerOf(hash) == golden.owner_of_100);
    CHECK(ShardOf(hash, 0) == 0);
    CHECK(ShardOf(hash, 4) == golden.shard_of_16);
    CHECK(HomeOf(hash, 1) == 0);
    CHECK(HomeOf(hash, 1000) == golden.line_of_1000);
    CHECK(TagOf(hash) == golden.tag);
  }
}

TEST_CASE("hashes are one to one") {
  testing::Random random(1);
  int wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t key = i < 10000 ? i - 5000 : random.Key();
    wrong += KeyOf(HashOf(key)) != key;
  }
  CHECK(wrong == 0);
}

TEST_CASE("every part of a hash reads its own bits") {
  const std::uint64_t all = ~0ull;
  CHECK(SlotOf(all << 48) == 0xffff);
  CHECK(SlotOf(~(all << 48)) == 0);
  CHECK(ShardOf(HashFrom(0, 0xff, 0, 0), 8) == 0xff);
  CHECK(ShardOf(~HashFrom(0, 0xff, 0, 0), 8) == 0);
  // The upper bits first: a table that is cut into twice as many shards cuts each shard in two.
  CHECK(ShardOf(HashFrom(0, 0xb5, 0, 0), 3) == 0xb5 >> 5);
  CHECK(HomeOf(HashFrom(0, 0, 0xffffffff, 0), 77) == 76);
  CHECK(HomeOf(~HashFrom(0, 0, 0xffffffff, 0), 77) == 0);
  CHECK(HomeOf(HashFrom(0, 0, 0x80000000, 0), 77) == 38);
  CHECK(TagOf(HashFrom(0, 0, 0, 0xfe)) == 0xfe);
  CHECK(TagOf(~HashFrom(0, 0, 0, 0xff)) == 1);  // 0 is a free place
}

// Ids as they are in the wild: counted, in steps, with a table's number in front.
const std::vector<std::function<std::int64_t(std::int64_t)>> kFamilies = {
    [](std::int64_t i) { return i; },
    [](std::int64_t i) { return -i; },
    [](std::int64_t i) { return i * 1024; },
    [](std::int64_t i) { return i << 40; },
    [](std::int64_t i) { return 7ll << 56 | i; },
    [](std::int64_t i) { return i * 1000003; },
};

TEST_CASE("keys are spread evenly over servers, whatever ids look like") {
  for (std::size_t family = 0; family < kFamilies.size(); ++family) {
    for (std::uint32_t servers = 2; servers <= 9; ++servers) {
      CAPTURE(family);
      CAPTURE(servers);
      const SlotMap slots = SlotMap::EqualRanges(servers);
      std::vector<std::uint32_t> counts(servers, 0);
      for (std::int64_t i = 0; i < 20000; ++i) ++counts[slots.OwnerOf(HashOf(kFamilies[family](i)))];
      CHECK(Unevenness(counts) < 5);
    }
  }
}

TEST_CASE("the keys of one server and shard are spread evenly over lines and tags") {
  constexpr std::uint32_t kLines = 48;
  const SlotRange owned = SlotMap::EqualRanges(8).RangeOf(5);
  for (std::size_t family = 0; family < kFamilies.size(); ++family) {
    CAPTURE(family);
    std::vector<std::uint32_t> homes(kLines, 0), tags(256, 0), shards(16, 0), both(4 * 16, 0);
    std::uint32_t kept = 0;
    for (std::int64_t i = 0; i < 400000; ++i) {
      const std::uint64_t hash = HashOf(kFamilies[family](i));
      if (!owned.Contains(hash)) continue;
      ++shards[ShardOf(hash, 4)];
      if (ShardOf(hash, 4) != 3) continue;
      ++kept;
      ++homes[HomeOf(hash, kLines)];
      ++tags[TagOf(hash)];
      ++both[HomeOf(hash, 4) * 16 + TagOf(hash) / 16];
    }
    CHECK(kept > 2500);
    CHECK(Unevenness(shards) < 5);
    CHECK(Unevenness(homes) < 5);
    CHECK(Unevenness(both) < 5);
    CHECK(tags[0] == 0);
    CHECK(tags[1] < 2 * kept / 64);  // its own and those of 0
    CHECK(Unevenness({tags.begin() + 2, tags.end()}) < 5);
  }
}

}  // namespace
}  // namespace afo
