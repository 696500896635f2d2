#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "tests/core/some_calls.h"

namespace afo {
namespace {

using testing::Arguments;
using testing::Done;
using testing::KindOf;
using testing::Scalar;
using testing::SomeStore;
using testing::Vector;

using Ints = std::vector<std::int32_t>;
using Longs = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Table& TableOf(Store* store, std::int32_t number) {
  return *store->FindTables(std::vector<std::int32_t>{number}).tables.front();
}

Done LookUp(Store* store, const Longs& ints, const Longs& keys, const Ints& splits) {
  return Do(store, {Function::kLookupRows, ints, {}, {}}, Arguments(Vector(keys), Vector(splits)));
}

struct Pushed {
  Longs numbers;
  Longs keys;
  Ints splits, rows, counts;
  Floats gradients;
  float schedule = 1;
  std::int64_t step = 5;
};

Failure Push(Store* store, const Pushed& pushed) {
  return Do(store, {Function::kApplyRows, pushed.numbers, {}, {}},
            Arguments(Vector(pushed.keys), Vector(pushed.splits), Vector(pushed.rows), Vector(pushed.counts),
                      Vector(pushed.gradients), Scalar(pushed.schedule), Scalar(pushed.step)))
      .failure;
}

// The header of a key's row, and whether there is one.
struct Row {
  bool found = false;
  std::uint32_t step = 0, frequency = 0;
  Floats values;
};

Row RowOf(Store* store, std::int32_t number, std::int64_t key) {
  const Table& table = TableOf(store, number);
  const auto floats = static_cast<std::size_t>(table.layout().floats);
  for (std::int32_t shard = 0; shard < table.shards(); ++shard) {
    const RowBlock block = table.Export({.shard = shard, .most = 1000}).block;
    for (std::size_t i = 0; i < block.keys.size(); ++i) {
      const auto first = block.values.begin() + static_cast<std::ptrdiff_t>(i * floats);
      if (block.keys[i] == key) return {true, block.steps[i], block.frequencies[i], {first, first + floats}};
    }
  }
  return {};
}

TEST_CASE("a lookup inserts where it is asked to, and answers rows table by table") {
  const auto store = SomeStore();
  const Done read = LookUp(store.get(), {0, 3, 0}, {1, 9, 2}, {0, 1, 3});
  CHECK(read.values<float>(0) == Floats{0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5});
  CHECK(read.results[1].type == PartType::kInt32);
  CHECK(read.results[1].dims == Longs{0});
  CHECK(TableOf(store.get(), 0).size() == 3);
  const Done inserted = LookUp(store.get(), {1, 3, 0}, {1, 9, 9}, {0, 1, 3});
  CHECK(inserted.values<float>(0) == read.values<float>(0));
  const Ints rows = inserted.values<std::int32_t>(1);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1] == rows[2]);
  CHECK(TableOf(store.get(), 0).size() == 4);
  // Of no tables.
  const Done none = LookUp(store.get(), {1}, {}, {0});
  CHECK(!none.failure.happened());
  CHECK(none.results[0].dims == Longs{0});
}

TEST_CASE("of more sets of keys than a call has numbers the first are meant") {
  const auto store = SomeStore();
  const Done first = LookUp(store.get(), {1, 3}, {1, 20, 21, 22}, {0, 2, 3, 4});
  CHECK(first.results[0].dims == Longs{6});
  CHECK(first.results[1].dims == Longs{2});
  CHECK(!RowOf(store.get(), 3, 21).found);
  // What belongs to keys is of all sets, or of these.
  for (const Ints& counts : {Ints{4, 5}, Ints{4, 5, 6, 7}}) {
    const Pushed pushed{{3}, {1, 20, 21, 22}, {0, 2, 3, 4}, counts, counts, Floats(6, 0)};
    CHECK(!Push(store.get(), pushed).happened());
  }
  CHECK(RowOf(store.get(), 3, 20).frequency == 10);
  CHECK(Push(store.get(), {{3}, {1, 20, 21, 22}, {0, 2, 3, 4}, {}, {1, 1, 1}, Floats(6, 0)}).kind ==
        FailureKind::kInvalid);
  CHECK(Push(store.get(), {{3}, {1, 20, 21, 22}, {0, 2, 3, 4}, {}, {}, Floats(12, 0)}).kind == FailureKind::kInvalid);
}

TEST_CASE("splits that do not cut the keys are refused") {
  const auto store = SomeStore();
  const Ints wrong[] = {{},        {0},          {0, 3},        {0, 2, 4},         {0, 2, 2},
                        {1, 2, 3}, {0, 4, 3},    {-1, 2, 3},    {0, -1, 3},        {0, 2, 3, 2},
                        {0, 2, 5}, {0, 2, 3, 9}, {0, 1, 2, -9}, {0, INT32_MAX, 3}, {INT32_MIN, 0, 3}};
  for (const Ints& splits : wrong) {
    CAPTURE(splits.size());
    const std::string before = testing::ContentOf(store.get());
    CHECK(LookUp(store.get(), {1, 0, 3}, {1, 10, 11}, splits).failure.kind == FailureKind::kInvalid);
    CHECK(testing::ContentOf(store.get()) == before);
  }
}

TEST_CASE("gradients change rows, whatever the numbers of rows say") {
  const auto store = SomeStore();
  const Ints inserted = LookUp(store.get(), {1, 0}, {1, 2}, {0, 2}).values<std::int32_t>(1);
  CHECK(!Push(store.get(), {{0}, {1, 2}, {0, 2}, inserted, {7, 1}, {1, 2, -1, 0}, 1, 12}).happened());
  CHECK(RowOf(store.get(), 0, 1).values == Floats{0, -0.5});
  CHECK(RowOf(store.get(), 0, 2).values == Floats{1, 0.5});
  CHECK(RowOf(store.get(), 0, 1).step == 12);
  CHECK(RowOf(store.get(), 0, 1).frequency == 7);
  CHECK(!Push(store.get(), {{0}, {1}, {0, 1}, {}, {}, {1, 1}, 0.5}).happened());
  CHECK(RowOf(store.get(), 0, 1).values == Floats{-0.25, -0.75});
  // Numbers of other rows, and of none; keys that come twice; one that is not there.
  for (const Ints& rows : {Ints{inserted[1], inserted[0], 0, 1}, Ints{-1, INT32_MIN, INT32_MAX, 1 << 20}}) {
    CHECK(!Push(store.get(), {{0}, {1, 2, 2, 30}, {0, 4}, rows, {-1, 0, INT32_MIN, 1}, Floats(8, 0)}).happened());
    CHECK(RowOf(store.get(), 0, 1).values == Floats{-0.25, -0.75});
    CHECK(RowOf(store.get(), 0, 30).values == Floats{0.5, 0.5});
  }
  CHECK(TableOf(store.get(), 0).size() == 4);
}

TEST_CASE("steps stay within what a row can have, and a schedule is a number") {
  const auto store = SomeStore();
  CHECK(!Push(store.get(), {{0}, {40}, {0, 1}, {}, {}, {0, 0}, 1, -7}).happened());
  CHECK(RowOf(store.get(), 0, 40).step == 0);
  CHECK(!Push(store.get(), {{0}, {40}, {0, 1}, {}, {}, {0, 0}, 1, INT64_MAX}).happened());
  CHECK(RowOf(store.get(), 0, 40).step == kFreeStep - 1);
  for (const float schedule : {NAN, INFINITY, -INFINITY}) {
    CHECK(Push(store.get(), {{0}, {41}, {0, 1}, {}, {}, {0, 0}, schedule}).kind == FailureKind::kInvalid);
  }
  CHECK(!RowOf(store.get(), 0, 41).found);
}

TEST_CASE("rows are removed by their keys") {
  const auto store = SomeStore();
  const Done done = Do(store.get(), {Function::kRemoveRows, {0}, {}, {}}, Arguments(Vector(Longs{1, 5, 7, 1})));
  CHECK(done.values<std::int64_t>(0) == Longs{2});
  CHECK(done.results[0].dims.empty());
  CHECK(TableOf(store.get(), 0).size() == 1);
}

struct Policy {
  Longs ints;
  Floats weights;
  std::int64_t step = 10, oldest = 0;
};

Done Evict(Store* store, const Policy& policy) {
  return Do(store, {Function::kEvictRows, policy.ints, policy.weights, {}},
            Arguments(Scalar(policy.step), Scalar(policy.oldest)));
}

TEST_CASE("rows are evicted by each table's own policy") {
  const auto store = SomeStore();
  // Table 0 has 1, 2 and 7, of 2 x 0.25; table 3 the same of 3 x 0.0625.
  REQUIRE(!Push(store.get(), {{0}, {2}, {0, 1}, {}, {}, {0, 0}, 1, 9}).happened());
  CHECK(Evict(store.get(), {{2, 0, 3, 0, 0, 0, 0}, {0, 0.1f}}).values<std::int64_t>(0) == Longs{0, 0});
  CHECK(Evict(store.get(), {{2, 0, 3, 5, 0, 0, 0}, {0, 0.2f}}).values<std::int64_t>(0) == Longs{2, 3});
  CHECK(RowOf(store.get(), 0, 2).found);
  CHECK(Evict(store.get(), {{1, 0, 0, 0}, {0}, 10, 10}).values<std::int64_t>(0) == Longs{1});
  LookUp(store.get(), {1, 0}, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 8});
  CHECK(Evict(store.get(), {{1, 0, 0, 2}, {0}}).values<std::int64_t>(0).front() >= 4);
  CHECK(Evict(store.get(), {{0}, {}}).results.at(0).dims == Longs{0});
}

TEST_CASE("policies that cannot be are refused") {
  const auto store = SomeStore();
  const Policy wrong[] = {{{1, 0, -1, 0}, {0}},
                          {{1, 0, kFreeStep, 0}, {0}},
                          {{1, 0, 0, -1}, {0}},
                          {{1, 0, 0, 1}, {-1}},
                          {{1, 0, 0, 1}, {NAN}},
                          {{1, 0, 0, 1}, {}},
                          {{1, 0, 0, 1}, {0, 0}},
                          {{2, 0, 0, 1}, {0}},
                          {{-1, 0, 0, 1}, {0}},
                          {{INT64_MAX, 0, 0, 1}, {0}},
                          {{INT64_MIN, 0, 0, 1}, {0}},
                          {{std::int64_t{1} << 61, 0, 0, 1}, {0}},
                          {{}, {0}}};
  for (const Policy& policy : wrong) {
    CHECK(Evict(store.get(), policy).failure.kind == FailureKind::kInvalid);
  }
  CHECK(TableOf(store.get(), 0).size() == 3);
}

}  // namespace
}  // namespace afo
