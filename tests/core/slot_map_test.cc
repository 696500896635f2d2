#include "afo/core/slot_map.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/core/support.h"

namespace afo {
namespace {

using testing::HashFrom;
using testing::Random;
using testing::SlotMaps;

constexpr std::uint64_t kAllSlots = kVirtualSlots;

// Of each slot; that of no server where the rest of the hash matters.
std::vector<std::uint32_t> OwnersOf(const SlotMap& slots) {
  std::vector<std::uint32_t> owners;
  for (std::uint32_t slot = 0; slot < kVirtualSlots; ++slot) {
    const std::uint32_t owner = slots.OwnerOf(HashFrom(slot, 0, 0, 0));
    owners.push_back(owner == slots.OwnerOf(HashFrom(slot, 0xff, 0xffffffff, 0xff)) ? owner : slots.servers());
  }
  return owners;
}

// The last server whose range has begun.
std::vector<std::uint32_t> Searched(const std::vector<std::int64_t>& starts) {
  std::vector<std::uint32_t> owners;
  for (std::int64_t slot = 0; slot < kVirtualSlots; ++slot) {
    std::uint32_t owner = 0;
    for (std::uint32_t server = 0; server < starts.size(); ++server) {
      if (starts[server] <= slot) owner = server;
    }
    owners.push_back(owner);
  }
  return owners;
}

std::vector<std::int64_t> StartsOf(const SlotMap& slots) {
  std::vector<std::int64_t> starts;
  for (std::uint32_t server = 0; server < slots.servers(); ++server) starts.push_back(slots.RangeOf(server).first);
  return starts;
}

TEST_CASE("equal ranges are those that the number of servers says, for every slot") {
  std::vector<std::uint32_t> all{100, 1000, 65535, 65536};
  for (std::uint32_t servers = 1; servers <= 64; ++servers) all.push_back(servers);
  for (const std::uint32_t servers : all) {
    CAPTURE(servers);
    // What owned a slot before there were maps. Never to be changed: checkpoints are cut by it.
    std::vector<std::uint32_t> wanted, counts(servers, 0);
    for (std::uint64_t slot = 0; slot < kVirtualSlots; ++slot) {
      wanted.push_back(static_cast<std::uint32_t>(slot * servers >> kSlotBits));
      ++counts[wanted.back()];
    }
    const SlotMap slots = SlotMap::EqualRanges(servers);
    CHECK(slots.servers() == servers);
    CHECK(slots.version() == 0);
    CHECK(OwnersOf(slots) == wanted);
    const auto [fewest, most] = std::ranges::minmax(counts);
    CHECK(most - fewest <= 1);
    int wrong = 0;
    for (std::uint32_t server = 0; server < servers; ++server) {
      const SlotRange range = slots.RangeOf(server);
      wrong += range.end - range.first != counts[server];
    }
    CHECK(wrong == 0);
    CHECK(SlotMap::FromStarts(StartsOf(slots), 0).map == slots);
  }
}

TEST_CASE("of any map each slot has the owner that a search finds") {
  Random random(1);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    std::vector<std::int64_t> starts{0};
    const std::uint64_t more = random.Below(round % 10 == 0 ? 300 : 12);
    // In some rounds all in few blocks of the table, where they meet.
    const std::uint64_t among = round % 3 == 0 ? 200 : kAllSlots + 1;
    for (std::uint64_t i = 0; i < more; ++i) starts.push_back(static_cast<std::int64_t>(random.Below(among)));
    std::ranges::sort(starts);
    const CheckedSlotMap checked = SlotMap::FromStarts(starts, round);
    REQUIRE_MESSAGE(checked.map.has_value(), checked.problem);
    const SlotMap& slots = *checked.map;
    CHECK(slots.version() == round);
    CHECK(StartsOf(slots) == starts);
    const std::vector<std::uint32_t> owners = OwnersOf(slots);
    CHECK(owners == Searched(starts));
    int wrong = 0;
    for (std::uint32_t slot = 0; slot < kVirtualSlots; slot += 7) {
      const std::uint64_t hash = HashFrom(slot, 1, 2, 3);
      const auto other = static_cast<std::uint32_t>(random.Below(slots.servers()));
      wrong += !slots.Owns(owners[slot], hash) || slots.Owns(other, hash) != (other == owners[slot]);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("ranges that have a slot in common overlap, and an empty one overlaps none") {
  const SlotRange range{.first = 10, .end = 20};
  CHECK(range.Overlaps({.first = 19, .end = 21}));
  CHECK(range.Overlaps({.first = 0, .end = 11}));
  CHECK(range.Overlaps({.first = 12, .end = 13}));
  CHECK(range.Overlaps({}));
  CHECK_FALSE(range.Overlaps({.first = 20, .end = 30}));
  CHECK_FALSE(range.Overlaps({.first = 0, .end = 10}));
  CHECK_FALSE(range.Overlaps({.first = 15, .end = 15}));
  CHECK_FALSE(SlotRange{.first = 15, .end = 15}.Overlaps(range));
  CHECK_FALSE(SlotRange{.first = 15, .end = 15}.Contains(HashFrom(15, 0, 0, 0)));
  for (const SlotMap& slots : SlotMaps({1, 2, 3, 100})) {
    for (std::uint32_t server = 1; server < slots.servers(); ++server) {
      CHECK_FALSE(slots.RangeOf(server - 1).Overlaps(slots.RangeOf(server)));
      CHECK(slots.RangeOf(server - 1).end == slots.RangeOf(server).first);
    }
    CHECK(slots.RangeOf(slots.servers() - 1).end == kVirtualSlots);
  }
}

TEST_CASE("maps are equal where their ranges and versions are") {
  const std::vector<std::int64_t> starts{0, 5};
  const SlotMap slots = SlotMap::FromStarts(starts, 1).map.value();
  CHECK(slots == SlotMap::FromStarts(starts, 1).map.value());
  CHECK_FALSE(slots == SlotMap::FromStarts(starts, 2).map.value());
  CHECK_FALSE(slots == SlotMap::FromStarts(std::vector<std::int64_t>{0, 6}, 1).map.value());
}

TEST_CASE("what is no map is refused by a sentence") {
  const auto problem = [](const std::vector<std::int64_t>& starts, std::int64_t version = 0) {
    const CheckedSlotMap checked = SlotMap::FromStarts(starts, version);
    CHECK(checked.map.has_value() == checked.problem.empty());
    return checked.problem;
  };
  CHECK(problem({}) == "a slot map has 0 starts; give one for each server, 1 to 65536");
  CHECK(problem({1, 2}) == "the first start of a slot map is 1, and must be 0");
  CHECK(problem({0, 9, 8}) ==
        "start 2 of a slot map is 8, and must be 9, which is the one before it, to 65536");
  CHECK(problem({0, 65537}) == "start 1 of a slot map is 65537, and must be 0, which is the one before it, to 65536");
  CHECK(problem({0, -1}) != "");
  CHECK(problem({0, INT64_MAX}) != "");
  CHECK(problem({INT64_MIN}) != "");
  CHECK(problem({0, 1}, -1) == "the version of a slot map is -1, and must be 0 or more");
  CHECK(problem({0, 0, 65536, 65536}) == "");
  std::vector<std::int64_t> many(kVirtualSlots, 0);
  CHECK(problem(many) == "");
  many.push_back(0);
  CHECK(problem(many) == "a slot map has 65537 starts; give one for each server, 1 to 65536");
}

}  // namespace
}  // namespace afo
