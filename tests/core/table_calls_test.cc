#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/core/some_calls.h"

namespace afo {
namespace {

using testing::Arguments;
using testing::Done;
using testing::KindOf;
using testing::SomeStore;
using testing::TableCall;
using testing::Vector;

using Longs = std::vector<std::int64_t>;

// Of the attributes of a table.
enum : std::size_t { kNumber, kDim, kSlots, kSeed, kBits, kMinCount, kMaxElements, kType, kOptions };

Table& TableOf(Store* store, std::int32_t number) {
  return *store->FindTables(std::vector<std::int32_t>{number}).tables.front();
}

TEST_CASE("a call adds a table of its attributes, once") {
  Store store;
  Call call = TableCall(4, 6, 0.25f, PartType::kBfloat16);
  call.ints = {4, 6, 2, -3, 2, 5, 1000, static_cast<std::int64_t>(PartType::kBfloat16), 2};
  call.floats = {0.5f, 0.125f, 0.25f, 0.75f, 8, -1, 1};
  call.texts = {"adam", "uniform", "beta_1", "l1", "minval", "maxval"};
  REQUIRE(KindOf(&store, call) == FailureKind::kNone);
  TableOptions options{.dim = 6, .weights = WeightType::kBfloat16, .shard_bits = 2};
  options.optimizer.rule = Rule::kAdam;
  options.optimizer.beta_1 = 0.75f;
  options.optimizer.l1 = 8;
  options.initializer = {.distribution = Distribution::kUniform, .minval = -1, .maxval = 1};
  options.initializer.seed = static_cast<std::uint64_t>(-3);
  options.admission = {.min_count = 5, .probability = 0.5f, .default_value = 0.125f, .max_element_size = 1000,
                       .false_positive_probability = 0.25f};
  CHECK(TableOf(&store, 4).options() == options);
  CHECK(KindOf(&store, call) == FailureKind::kNone);
  call.floats[3] = 0.5f;
  CHECK(KindOf(&store, call) == FailureKind::kConflict);
  CHECK(store.tables() == 1);
}

TEST_CASE("options of tables that are out of their ranges are refused") {
  Store store;
  const auto refuse = [&store](auto change) {
    Call call = TableCall(4, 6, 0.25f);
    change(&call);
    CHECK(KindOf(&store, call) == FailureKind::kInvalid);
  };
  struct Wrong {
    std::size_t place;
    Longs values;
  };
  const std::int64_t wrapped = std::int64_t{1} << 32;
  for (const Wrong& wrong : {Wrong{kNumber, {-1, kMostTables, INT64_MAX, wrapped}},
                             {kDim, {0, -1, kMaxDim + 1, wrapped + 2, INT64_MIN}},
                             {kSlots, {1, -1, wrapped}},
                             {kBits, {-1, kMaxShardBits + 1, wrapped}},
                             {kMinCount, {0, -1, std::int64_t{kMaxFrequency} + 1, wrapped + 1}},
                             {kMaxElements, {-1, 1000000000001, INT64_MAX}},
                             {kType, {0, 2, 257, 259, -1, wrapped + 1}},
                             {kOptions, {0, 2, 3, -1, INT64_MAX, INT64_MIN}}}) {
    for (const std::int64_t value : wrong.values) {
      CAPTURE(wrong.place);
      CAPTURE(value);
      refuse([&](Call* call) { call->ints[wrong.place] = value; });
    }
  }
  // The probability, the default value, the chance of a false positive, the option of the rule, and of the initializer.
  const std::vector<std::vector<float>> floats{{0, -1, 1.5f}, {}, {0, 1, -1, 1e-10f, 1e-45f}, {}, {}};
  for (std::size_t i = 0; i < floats.size(); ++i) {
    CAPTURE(i);
    for (const float value : floats[i]) refuse([&](Call* call) { call->floats[i] = value; });
    for (const float value : {NAN, INFINITY, -INFINITY}) refuse([&](Call* call) { call->floats[i] = value; });
  }
  for (std::size_t i = 0; i < 4; ++i) refuse([&](Call* call) { call->texts[i] = "of no kind"; });
  refuse([](Call* call) { call->texts.pop_back(); });
  refuse([](Call* call) { call->texts.resize(1); });
  refuse([](Call* call) { call->texts.clear(); });
  refuse([](Call* call) { call->floats.clear(); });
  refuse([](Call* call) { call->floats.push_back(1); });
  CHECK(store.tables() == 0);
  refuse([](Call* call) {
    call->ints = {4, 1, 0, 0, 0, 2, 0, 1, -2};
    call->floats = {1, 0, 0.1f};
    call->texts = {"sgd", "constant"};
  });
}

TEST_CASE("what is made of a few bytes is bounded") {
  Store store;
  Call call = TableCall(kMostTables - 1, kMaxDim, 0.25f);
  call.ints[kBits] = kMaxShardBits;
  CHECK(KindOf(&store, call) == FailureKind::kNone);
  CHECK(store.bytes() < 1 << 20);
  call.ints[kNumber] = 2;
  call.ints[kMinCount] = 2;
  call.ints[kMaxElements] = 1000000000000;
  CHECK(KindOf(&store, call) == FailureKind::kNone);
  CHECK(store.bytes() < 1 << 20);
}

TEST_CASE("calls tell how much is in tables, and clear them") {
  const auto store = SomeStore();
  const Call sizes{Function::kTableSizes, {3, 0, 5}, {}, {}};
  const Done done = Do(store.get(), sizes, Arguments());
  CHECK(done.values<std::int64_t>(0) == Longs{3, 3, 0});
  CHECK(done.values<std::int64_t>(1)[0] == static_cast<std::int64_t>(TableOf(store.get(), 3).bytes()));
  CHECK(KindOf(store.get(), {Function::kClearTables, {0, 99}, {}, {}}) == FailureKind::kMissing);
  CHECK(Do(store.get(), sizes, Arguments()).values<std::int64_t>(0) == Longs{3, 3, 0});
  CHECK(KindOf(store.get(), {Function::kClearTables, {0}, {}, {}}) == FailureKind::kNone);
  CHECK(Do(store.get(), sizes, Arguments()).values<std::int64_t>(0) == Longs{3, 0, 0});
}

TEST_CASE("calls begin epochs, forget removals, and set the numbers of updates") {
  const auto store = SomeStore();
  Table& table = TableOf(store.get(), 0);
  const auto give = [&store](Function function, const Longs& values) {
    return KindOf(store.get(), {function, {0, 3}, {}, {}}, Arguments(Vector(values)));
  };
  CHECK(give(Function::kSetPowers, {7, -9}) == FailureKind::kNone);
  const Done begun = Do(store.get(), {Function::kBeginEpoch, {0, 3, 5}, {}, {}}, Arguments());
  CHECK(begun.values<std::int64_t>(0) == Longs{2, 2, 1});
  CHECK(begun.values<std::int64_t>(1) == Longs{7, 0, 0});
  const auto removed = [&table] {
    return table.ExportRemoved(0, 0).removed.size() + table.ExportRemoved(1, 0).removed.size();
  };
  CHECK(removed() == 1);
  CHECK(give(Function::kForgetRemoved, {1, 1}) == FailureKind::kNone);
  CHECK(give(Function::kForgetRemoved, {-1, INT64_MIN}) == FailureKind::kNone);
  CHECK(removed() == 1);
  CHECK(give(Function::kForgetRemoved, {2, 2}) == FailureKind::kNone);
  CHECK(removed() == 0);
}

}  // namespace
}  // namespace afo
