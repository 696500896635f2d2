#include "afo/core/unique.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "afo/core/hash.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::HashFrom;
using testing::KeyOf;
using testing::Random;
using testing::SlotMaps;

struct Batch {
  std::vector<std::vector<std::int64_t>> ids;  // of each run
  std::vector<std::int32_t> table;             // of each run
  std::int32_t tables = 1;

  void Add(std::int32_t run_table, std::vector<std::int64_t> run_ids) {
    table.push_back(run_table);
    ids.push_back(std::move(run_ids));
  }
};

// What is wrong with a partition, by what it must be; empty where nothing is.
std::string Wrong(const Batch& batch, const SlotMap& slots, UniquePartition* partition) {
  const std::uint32_t servers = slots.servers();
  std::vector<IdRun> runs;
  std::size_t all = 0;
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    runs.push_back({batch.ids[i].data(), static_cast<std::int64_t>(batch.ids[i].size()), batch.table[i]});
    all += batch.ids[i].size();
  }
  std::vector<std::int32_t> places(all + 1, -7);
  const std::optional<UniqueKeys> found = partition->Run(runs, batch.tables, slots, places.data());
  if (!found.has_value()) return "refused";
  const UniqueKeys& unique = *found;
  if (places.back() != -7) return "a place behind the last";

  std::map<std::pair<std::int32_t, std::int64_t>, std::uint32_t> wanted;  // (table, key): how often
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    for (const std::int64_t id : batch.ids[i]) ++wanted[{batch.table[i], id}];
  }
  if (unique.keys.size() != wanted.size()) return "so many keys: " + std::to_string(unique.keys.size());
  const auto width = static_cast<std::size_t>(batch.tables) + 1;
  if (unique.splits.size() != servers * width) return "so many splits: " + std::to_string(unique.splits.size());

  // Every key once, at its owner, with its count.
  std::vector<std::size_t> first_of(servers);
  std::size_t at = 0;
  for (std::uint32_t server = 0; server < servers; ++server) {
    const std::int32_t* splits = unique.splits.data() + server * width;
    first_of[server] = at;
    if (splits[0] != 0) return "a server whose tables do not begin at 0";
    for (std::int32_t table = 0; table < batch.tables; ++table) {
      std::set<std::int64_t> seen;
      for (std::int32_t i = splits[table]; i < splits[table + 1]; ++i, ++at) {
        if (at >= unique.keys.size()) return "splits beyond the keys";
        const std::int64_t key = unique.keys[at];
        if (!seen.insert(key).second) return "a key twice";
        if (!slots.Owns(server, HashOf(key))) return "a key at a server that does not own it";
        const auto count = wanted.find({table, key});
        if (count == wanted.end()) return "a key that nobody asked for";
        if (unique.counts[at] != count->second) return "a wrong count";
      }
    }
  }
  if (at != unique.keys.size()) return "splits that leave keys out";

  // Every id's place is its key's.
  const int shift = PlaceShift(servers);
  std::size_t position = 0;
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    for (const std::int64_t id : batch.ids[i]) {
      const std::int32_t place = places[position++];
      if (place < 0) return "a negative place";
      const auto server = static_cast<std::uint32_t>(place) >> shift;
      const auto number = static_cast<std::int32_t>(place & ((1u << shift) - 1));
      if (server >= servers) return "a place at no server";
      const std::int32_t* splits = unique.splits.data() + server * width;
      if (number >= splits[batch.table[i] + 1] - splits[batch.table[i]]) return "a place behind a table's keys";
      if (unique.keys[first_of[server] + splits[batch.table[i]] + number] != id) return "another key's place";
    }
  }
  return "";
}

const std::vector<SlotMap> kMaps = SlotMaps({1, 2, 3, 4, 5, 8, 100});

std::vector<std::int64_t> Draw(Random* random, std::size_t count, std::uint64_t kinds) {
  std::vector<std::int64_t> ids(count);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random->Below(kinds)) - 5;
  return ids;
}

TEST_CASE("a batch's different keys come by server and table, and every id finds its own") {
  Random random(1);
  UniquePartition partition;  // one for all: nothing of a batch is left for the next
  for (int round = 0; round < 12; ++round) {
    Batch batch;
    batch.tables = 1 + static_cast<std::int32_t>(random.Below(5));
    const std::uint64_t runs = 1 + random.Below(7);
    for (std::uint64_t i = 0; i < runs; ++i) {
      // Several runs of a table, tables without runs, runs without ids; the same ids in several tables.
      const std::size_t count = random.Below(4) == 0 ? 0 : random.Below(round % 4 == 3 ? 6000 : 300);
      const auto table = static_cast<std::int32_t>(random.Below(static_cast<std::uint64_t>(batch.tables)));
      batch.Add(table, Draw(&random, count, 1 + random.Below(3000)));
    }
    for (const SlotMap& slots : kMaps) {
      CAPTURE(round);
      CAPTURE(slots.servers());
      CHECK(Wrong(batch, slots, &partition) == "");
    }
  }
}

TEST_CASE("batches of nothing, of one, of one over and over") {
  UniquePartition partition;
  for (const SlotMap& slots : kMaps) {
    CAPTURE(slots.servers());
    Batch none, empty, one, same, special;
    none.tables = empty.tables = one.tables = same.tables = 3;
    CHECK(Wrong(none, slots, &partition) == "");
    empty.Add(1, {});
    empty.Add(2, {});
    CHECK(Wrong(empty, slots, &partition) == "");
    one.Add(1, {INT64_MIN});
    CHECK(Wrong(one, slots, &partition) == "");
    same.Add(2, std::vector<std::int64_t>(5000, -1));
    same.Add(0, std::vector<std::int64_t>(3, -1));
    same.Add(2, {-1, 0, -1});
    CHECK(Wrong(same, slots, &partition) == "");
    special.Add(0, testing::SpecialKeys());
    special.Add(0, testing::SpecialKeys());
    CHECK(Wrong(special, slots, &partition) == "");
  }
}

TEST_CASE("a table with many more ids than others is cut finer") {
  Random random(2);
  UniquePartition partition;
  Batch batch;
  batch.tables = 3;
  batch.Add(0, Draw(&random, 40000, 1u << 30));
  batch.Add(1, Draw(&random, 20, 8));
  batch.Add(2, Draw(&random, 9000, 4000));
  batch.Add(0, Draw(&random, 5000, 100));
  for (const std::uint32_t servers : {1u, 3u, 8u}) {
    CAPTURE(servers);
    CHECK(Wrong(batch, SlotMap::EqualRanges(servers), &partition) == "");
  }
}

TEST_CASE("keys that meet in a bucket are told apart") {
  UniquePartition partition;
  Batch batch;
  std::vector<std::int64_t> ids;
  // One owner, shard and lower half of the hash: all go to one place of one bucket.
  for (std::uint64_t n = 0; n < 700; ++n) ids.push_back(KeyOf(HashFrom(n % 256, 0, (n / 256) << 24 | 5, 7)));
  ids.insert(ids.end(), ids.begin(), ids.begin() + 100);
  batch.Add(0, ids);
  for (const std::uint32_t servers : {1u, 2u, 8u}) CHECK(Wrong(batch, SlotMap::EqualRanges(servers), &partition) == "");
}

TEST_CASE("the keys of a server's table are in the order of its shards") {
  Random random(3);
  const std::vector<std::int64_t> ids = random.Keys(20000);
  std::vector<std::int32_t> places(ids.size());
  UniquePartition partition;
  const std::optional<UniqueKeys> found = partition.Run({{ids.data(), 20000, 0}}, 1, SlotMap::EqualRanges(2), places.data());
  REQUIRE(found.has_value());
  const UniqueKeys& unique = *found;
  int wrong = 0;
  for (std::size_t i = 1; i < unique.keys.size(); ++i) {
    if (static_cast<std::int32_t>(i) == unique.splits[1]) continue;  // the next server's first
    wrong += ShardOf(HashOf(unique.keys[i - 1]), 3) > ShardOf(HashOf(unique.keys[i]), 3);
  }
  CHECK(wrong == 0);
}

TEST_CASE("the same batch gives the same keys in the same order, whatever came before") {
  Random random(4);
  const std::vector<std::int64_t> ids = Draw(&random, 5000, 900);
  std::vector<std::int32_t> first(ids.size()), second(ids.size());
  UniquePartition fresh, used;
  const std::vector<std::int64_t> before = random.Keys(30000);
  std::vector<std::int32_t> places(before.size());
  REQUIRE(used.Run({{before.data(), 30000, 2}}, 3, SlotMap::EqualRanges(5), places.data()).has_value());
  const auto one = fresh.Run({{ids.data(), 5000, 0}}, 1, SlotMap::EqualRanges(4), first.data());
  const auto other = used.Run({{ids.data(), 5000, 0}}, 1, SlotMap::EqualRanges(4), second.data());
  REQUIRE(one.has_value());
  REQUIRE(other.has_value());
  CHECK(first == second);
  CHECK(std::ranges::equal(one->keys, other->keys));
  CHECK(std::ranges::equal(one->counts, other->counts));
  CHECK(std::ranges::equal(one->splits, other->splits));
}

TEST_CASE("a place has bits for every server, and all others for numbers") {
  CHECK(PlaceShift(1) == 31);
  CHECK(PlaceShift(2) == 30);
  CHECK(PlaceShift(3) == 29);
  CHECK(PlaceShift(4) == 29);
  CHECK(PlaceShift(5) == 28);
  CHECK(PlaceShift(8) == 28);
  CHECK(PlaceShift(9) == 27);
  CHECK(PlaceShift(100) == 24);
  for (std::uint32_t servers = 1; servers <= 65536; servers = servers * 2 + servers / 3 + 1) {
    const auto last = static_cast<std::uint64_t>(servers - 1) << PlaceShift(servers);
    CHECK((last | ((1ull << PlaceShift(servers)) - 1)) <= INT32_MAX);
  }
}

TEST_CASE("more keys than a place can count are refused") {
  constexpr std::uint32_t kMost = 65536;
  REQUIRE(PlaceShift(kMost) == 15);
  std::vector<std::int64_t> ids;  // all of the second server
  for (std::uint64_t n = 0; n < 32769; ++n) ids.push_back(KeyOf(HashFrom(1, n & 255, n << 10, n)));
  std::vector<std::int32_t> places(ids.size());
  UniquePartition partition;
  const auto keys_of = [&](const std::vector<IdRun>& runs, std::int32_t tables) {
    const auto found = partition.Run(runs, tables, SlotMap::EqualRanges(kMost), places.data());
    return found.has_value() ? found->keys.size() : 0;
  };
  CHECK(keys_of({{ids.data(), 32769, 0}}, 1) == 0);
  CHECK(keys_of({{ids.data(), 32767, 0}}, 1) == 32767);
  // Two tables have numbers of their own.
  const std::vector<IdRun> runs{{ids.data(), 20000, 0}, {ids.data() + 5000, 20000, 1}};
  places.resize(40000);
  CHECK(keys_of(runs, 2) == 40000);
}

}  // namespace
}  // namespace afo
