#include "afo/core/table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include "tests/core/support.h"
#include "tests/core/table_model.h"

namespace afo {
namespace {

using testing::Choose;
using testing::HashFrom;
using testing::kFirstLine;
using testing::kLastLine;
using testing::KeyOf;
using testing::MirroredTable;
using testing::Random;
using testing::Told;

constexpr Told kTold[] = {Told::kNothing, Told::kLast, Told::kOthers, Told::kNone, Told::kAnything};

TableOptions OptionsOf(std::int32_t dim, Rule rule = Rule::kSgd, int shard_bits = 2) {
  TableOptions options;
  options.dim = dim;
  options.shard_bits = shard_bits;
  options.optimizer.rule = rule;
  options.optimizer.decay_rate = 0.5f;
  options.optimizer.decay_steps = 10;
  options.initializer = {.distribution = Distribution::kUniform, .minval = -0.5, .maxval = 0.5, .seed = 3};
  return options;
}

// All shards of a batch, one after the other.
std::vector<float> LookupOrInsert(Table* table, const std::vector<std::int64_t>& keys,
                                  std::vector<std::uint32_t>* rows = nullptr) {
  ShardOrder order;
  table->OrderByShard(keys, &order);
  std::vector<float> values(keys.size() * static_cast<std::size_t>(table->options().dim), NAN);
  if (rows != nullptr) rows->assign(keys.size(), 0xabcdef);
  for (std::int32_t shard = 0; shard < table->shards(); ++shard) {
    const LookupOutput to{.values = values.data(), .rows = rows == nullptr ? nullptr : rows->data()};
    const Status status = table->LookupOrInsert(order, shard, keys.data(), to);
    REQUIRE(status == Status::kOk);
  }
  return values;
}

std::vector<float> Lookup(const Table& table, const std::vector<std::int64_t>& keys) {
  ShardOrder order;
  table.OrderByShard(keys, &order);
  std::vector<float> values(keys.size() * static_cast<std::size_t>(table.options().dim), NAN);
  for (std::int32_t shard = 0; shard < table.shards(); ++shard) {
    table.Lookup(order, shard, keys.data(), {.values = values.data()});
  }
  return values;
}

bool Apply(Table* table, const std::vector<std::int64_t>& keys, const std::uint32_t* rows,
           const std::vector<float>& gradients, StepInfo info = {}) {
  ShardOrder order;
  table->OrderByShard(keys, &order);
  const Update update = table->NextUpdate(info.schedule);
  bool all = true;
  for (std::int32_t shard = 0; shard < table->shards(); ++shard) {
    const RowGradients of{.gradients = gradients.data(), .rows = rows};
    const Status status = table->Apply(order, shard, keys.data(), of, update, info);
    all = all && status == Status::kOk;
  }
  return all;
}

TEST_CASE("a batch is ordered by shard, and within one as it was") {
  Random random(1);
  for (const int bits : {0, 1, 4, 8}) {
    const Table table(OptionsOf(1, Rule::kSgd, bits));
    REQUIRE(table.shards() == 1 << bits);
    ShardOrder order;  // used again
    for (const std::size_t count : {0u, 1u, 1000u, 77u}) {
      const std::vector<std::int64_t> keys = random.Keys(count);
      table.OrderByShard(keys, &order);
      REQUIRE(order.positions.size() == count);
      REQUIRE(order.starts.size() == static_cast<std::size_t>(table.shards()) + 1);
      CHECK(order.starts.front() == 0);
      CHECK(order.starts.back() == count);
      int wrong = 0;
      for (std::int32_t shard = 0; shard < table.shards(); ++shard) {
        for (std::uint32_t at = order.starts[shard]; at < order.starts[shard + 1]; ++at) {
          wrong += ShardOf(HashOf(keys[order.positions[at]]), bits) != static_cast<std::uint32_t>(shard);
          wrong += at > order.starts[shard] && order.positions[at] <= order.positions[at - 1];
        }
      }
      std::sort(order.positions.begin(), order.positions.end());
      for (std::uint32_t i = 0; i < count; ++i) wrong += order.positions[i] != i;
      CHECK(wrong == 0);
    }
  }
}

// Any interleaving of all that a table does, beside a dictionary.
void Interleave(const TableOptions& options, const std::vector<std::int64_t>& keys, std::uint64_t seed, int steps) {
  Random random(seed);
  MirroredTable mirrored(options);
  StepInfo info;
  for (int i = 0; i < steps; ++i) {
    // More than the 64 that are worked on at once, or few.
    const std::vector<std::int64_t> chosen = Choose(keys, random.Below(random.Below(3) == 0 ? 300 : 12), &random);
    switch (random.Below(6)) {
      case 0:
      case 1: {
        std::vector<std::int64_t> twice = chosen;  // a key may be several times in a lookup
        for (std::size_t j = 0; j < chosen.size(); ++j) twice.push_back(chosen[random.Below(chosen.size())]);
        mirrored.LookupOrInsert(twice, random.Below(4) != 0);
        break;
      }
      case 2:
        mirrored.Lookup(chosen, random.Below(4) != 0);
        break;
      case 3:
      case 4: {
        const auto dim = static_cast<std::size_t>(options.dim);
        const std::vector<float> gradients = random.Floats(chosen.size() * dim);
        info.step = static_cast<std::uint32_t>(std::max<std::int64_t>(
            0, static_cast<std::int64_t>(info.step) + static_cast<std::int64_t>(random.Below(20)) - 4));
        info.schedule = random.Below(2) == 0 ? 1.0f : 0.25f;
        std::vector<std::uint32_t> counts(chosen.size());
        const std::uint64_t often = random.Below(9) * 900000 + 3;  // up to the most that a row can count
        for (std::uint32_t& count : counts) count = static_cast<std::uint32_t>(random.Below(often));
        mirrored.Apply(chosen, gradients, kTold[random.Below(5)], &random, info,
                       random.Below(3) == 0 ? nullptr : counts.data());
        break;
      }
      default:
        mirrored.Remove(chosen);
    }
  }
  mirrored.CompareAll();
  mirrored.Remove(keys);
  CHECK(mirrored.table().size() == 0);
  mirrored.CompareAll();
}

TEST_CASE("a table does what a dictionary does, for every rule, whatever comes after what") {
  constexpr std::int32_t kDims[] = {1, 3, 8, 17, 5, 16, 2, 9, 12};
  static_assert(std::size(kDims) == kRules);
  for (int rule = 0; rule < kRules; ++rule) {
    for (const int shard_bits : {0, 3}) {
      CAPTURE(rule);
      CAPTURE(shard_bits);
      TableOptions options = OptionsOf(kDims[rule], static_cast<Rule>(rule), shard_bits);
      options.weights = (rule + shard_bits) % 2 == 0 ? WeightType::kFloat32 : WeightType::kBfloat16;
      std::vector<std::int64_t> keys = Random(5).Keys(400);
      for (const std::int64_t key : testing::SpecialKeys()) keys.push_back(key);
      CHECK_NOTHROW(Interleave(options, keys, static_cast<std::uint64_t>(rule), 60));
    }
  }
}

TEST_CASE("small tables whose keys are numbers of rows, and meet in their lines") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    std::vector<std::int64_t> keys{0, 1, 2, 3, 4, 5, 6, 7, 8, 0xffffffffll};
    for (std::uint64_t n = 0; n < (seed < 3 ? 10u : 30u); ++n) {
      keys.push_back(KeyOf(HashFrom(n, 0, n % 2 == 0 ? kFirstLine : kLastLine, n % 4)));
    }
    CHECK_NOTHROW(Interleave(OptionsOf(3, Rule::kAdagrad, 0), keys, seed, 200));
  }
}

TEST_CASE("a small table whose keys come and go for long answers always") {
  // As many as fill an index of two lines: sooner or later each line was passed by a key.
  Random random(6);
  MirroredTable mirrored(OptionsOf(1, Rule::kSgd, 0));
  std::vector<std::int64_t> live = random.Keys(19);
  mirrored.LookupOrInsert(live);
  for (int i = 0; i < 6000; ++i) {
    std::int64_t& one = live[random.Below(live.size())];
    mirrored.Remove({one});
    one = random.Key();
    mirrored.Lookup({one, random.Key()});
    mirrored.LookupOrInsert({one});
  }
  CHECK(mirrored.table().size() == 19);
}

TEST_CASE("keys that all begin at one line are found, many as they are") {
  std::vector<std::int64_t> keys;
  for (std::uint64_t n = 0; n < 900; ++n) keys.push_back(KeyOf(HashFrom(n, 0, kLastLine, n % 2)));
  MirroredTable mirrored(OptionsOf(2, Rule::kAdagrad, 0));
  Random random(7);
  mirrored.LookupOrInsert(keys);
  mirrored.Apply(keys, random.Floats(1800), Told::kLast, &random);
  for (int i = 0; i < 8; ++i) {
    mirrored.Remove(Choose(keys, 300, &random));
    mirrored.CompareAll();
    mirrored.LookupOrInsert(Choose(keys, 300, &random));
  }
  mirrored.CompareAll();
}

TEST_CASE("a new key has its first values, and has them again after it was removed") {
  for (const Distribution each : {Distribution::kConstant, Distribution::kUniform, Distribution::kNormal}) {
    TableOptions options = OptionsOf(6, Rule::kAdagrad);
    options.initializer = {.distribution = each, .value = 0.25, .minval = 0.25, .maxval = 0.75, .mean = 0.25,
                           .stddev = 0.75, .seed = 9};
    Table table(options);
    const std::vector<std::int64_t> keys = Random(8).Keys(500);
    std::vector<float> wanted(keys.size() * 6);
    const Initializer initializer(options.initializer);
    for (std::size_t i = 0; i < keys.size(); ++i) initializer.Fill(keys[i], &wanted[i * 6], 6);
    CHECK(Lookup(table, keys) == wanted);  // before they are there
    CHECK(table.size() == 0);
    CHECK(LookupOrInsert(&table, keys) == wanted);
    REQUIRE(Apply(&table, keys, nullptr, std::vector<float>(keys.size() * 6, 1.0f)));
    const std::vector<float> after = Lookup(table, keys);
    CHECK(after != wanted);
    CHECK(table.Remove({keys.data(), 500}) == 500);
    CHECK(table.Remove({keys.data(), 500}) == 0);
    CHECK(Lookup(table, keys) == wanted);
    CHECK(LookupOrInsert(&table, {keys.rbegin(), keys.rend()}) != after);
    CHECK(LookupOrInsert(&table, keys) == wanted);
    // Its slots are new, too: the same update does the same.
    REQUIRE(Apply(&table, keys, nullptr, std::vector<float>(keys.size() * 6, 1.0f)));
    CHECK(Lookup(table, keys) == after);
  }
}

TEST_CASE("removed rows are used again, so a table of which as much goes as comes stays as large") {
  Table table(OptionsOf(16, Rule::kAdam));
  std::int64_t next = 0;
  std::size_t bytes = 0;
  for (int round = 0; round < 30; ++round) {
    std::vector<std::int64_t> keys(1000);
    for (std::int64_t& key : keys) key = next++;
    std::vector<std::uint32_t> rows;
    LookupOrInsert(&table, keys, &rows);
    CHECK(*std::max_element(rows.begin(), rows.end()) < 400);  // of each of four shards
    CHECK(table.Remove({keys.data(), 1000}) == 1000);
    if (round == 9) bytes = table.bytes();
  }
  CHECK(table.bytes() < bytes * 3 / 2);
  CHECK(table.size() == 0);
}

TEST_CASE("a new key that is in a batch a thousand times takes a row and no room for a thousand") {
  Table table(OptionsOf(16, Rule::kAdam));
  LookupOrInsert(&table, std::vector<std::int64_t>(50000, 7));
  CHECK(table.size() == 1);
  CHECK(table.bytes() < 100000);
}

TEST_CASE("a row of which an update was told long ago is not written when it is another key's now") {
  Table table(OptionsOf(2, Rule::kSgd, 0));
  std::vector<std::uint32_t> rows, rows_now;
  LookupOrInsert(&table, {100, 200}, &rows);
  const std::int64_t gone[] = {100, 200};
  REQUIRE(table.Remove(gone) == 2);
  const std::vector<float> first = LookupOrInsert(&table, {300, 400}, &rows_now);
  std::sort(rows_now.begin(), rows_now.end());
  std::vector<std::uint32_t> sorted = rows;
  std::sort(sorted.begin(), sorted.end());
  REQUIRE(rows_now == sorted);  // the rows are others' now
  REQUIRE(Apply(&table, {100, 200}, rows.data(), {1, 1, 1, 1}));
  CHECK(Lookup(table, {300, 400}) == first);
  CHECK(table.size() == 4);  // the keys came back, with what the update did to them
}

TEST_CASE("a free row, which holds the number of the next, is not taken for a key of that number") {
  // Free rows 0 to 3 in a list: the row that says `n` in place of a key would be that of key n.
  for (std::int64_t key : {0ll, 1ll, 2ll, 3ll, 0xffffffffll}) {
    for (std::uint32_t row = 0; row < 4; ++row) {
      Table table(OptionsOf(1, Rule::kSgd, 0));
      const std::vector<std::int64_t> keys{100, 101, 102, 103};
      LookupOrInsert(&table, keys);
      REQUIRE(table.Remove({keys.data(), 4}) == 4);
      REQUIRE(Apply(&table, {key}, &row, {0}));
      CHECK(table.size() == 1);
      LookupOrInsert(&table, {200, 201, 202, 203});
      CHECK(table.size() == 5);
      CHECK(Lookup(table, {key}) == Lookup(Table(OptionsOf(1)), {key}));
    }
  }
}

TEST_CASE("rows stay where they are told while the table grows") {
  MirroredTable mirrored(OptionsOf(4, Rule::kAdagrad, 1));
  Random random(9);
  const std::vector<std::int64_t> early = random.Keys(50);
  mirrored.LookupOrInsert(early);
  mirrored.LookupOrInsert(random.Keys(8000));
  mirrored.Apply(early, random.Floats(200), Told::kLast, &random);
  mirrored.LookupOrInsert(random.Keys(8000));
  mirrored.Apply(early, random.Floats(200), Told::kLast, &random);
  mirrored.CompareAll();
}

TEST_CASE("the result does not depend on the number of shards") {
  const std::vector<std::int64_t> keys = Random(10).Keys(3000);
  std::vector<float> first;
  for (const int bits : {0, 1, 4, 8}) {
    Table table(OptionsOf(5, Rule::kAdam, bits));
    Random random(11);
    for (int i = 0; i < 6; ++i) {
      const std::vector<std::int64_t> chosen = Choose(keys, 1000, &random);
      std::vector<std::uint32_t> rows;
      LookupOrInsert(&table, chosen, &rows);
      REQUIRE(Apply(&table, chosen, i % 2 == 0 ? rows.data() : nullptr, random.Floats(5000)));
      const std::vector<std::int64_t> gone = Choose(keys, 100, &random);
      table.Remove({gone.data(), 100});
    }
    const std::vector<float> values = Lookup(table, keys);
    if (first.empty()) first = values;
    CHECK(values == first);
  }
}

TEST_CASE("Adam's powers are counted by table, from one") {
  TableOptions options = OptionsOf(1, Rule::kAdam);
  Table table(options);
  CHECK(table.powers() == 0);
  CHECK(table.NextUpdate(0.5f).rate == UpdateOf(options.optimizer, 0.5f, 1).rate);
  CHECK(table.powers() == 1);
  CHECK(table.NextUpdate(1).rate == UpdateOf(options.optimizer, 1, 2).rate);
  table.set_powers(500);
  CHECK(table.NextUpdate(1).rate == UpdateOf(options.optimizer, 1, 501).rate);
  CHECK(table.powers() == 501);
}

TEST_CASE("adagrad_decay: a row decays once for each period that ended since its last update") {
  TableOptions options = OptionsOf(1, Rule::kAdagradDecay);
  options.optimizer.learning_rate = 1;
  options.optimizer.initial_accumulator = 1;
  options.initializer = {};
  Table table(options);
  // By hand: weight and accumulator after updates with gradient 4 at steps 9, 10, 19, 45, 44.
  double weight = 0, accumulator = 1;
  const int halvings[] = {0, 1, 0, 3, 0};
  const std::uint32_t steps[] = {9, 10, 19, 45, 44};
  for (int i = 0; i < 5; ++i) {
    StepInfo info;
    info.step = steps[i];
    REQUIRE(Apply(&table, {7}, nullptr, {4}, info));
    for (int h = 0; h < halvings[i]; ++h) accumulator /= 2;
    accumulator = std::max(accumulator, 1.0) + 16;
    weight -= 4 / std::sqrt(accumulator);
    CHECK(Lookup(table, {7})[0] == doctest::Approx(weight).epsilon(1e-6));
  }
  // The step before was 45, not the older one of the late update.
  StepInfo info;
  info.step = 49;
  REQUIRE(Apply(&table, {7}, nullptr, {4}, info));
  weight -= 4 / std::sqrt(accumulator + 16);
  CHECK(Lookup(table, {7})[0] == doctest::Approx(weight).epsilon(1e-6));
}

TEST_CASE("an empty table, and empty batches") {
  Table table(OptionsOf(3));
  CHECK(table.size() == 0);
  CHECK(table.bytes() == 0);
  const std::int64_t key = 5;
  CHECK(table.Remove({&key, 1}) == 0);
  CHECK(LookupOrInsert(&table, {}).empty());
  CHECK(Lookup(table, {}).empty());
  CHECK(Apply(&table, {}, nullptr, {}));
  CHECK(table.size() == 0);
  CHECK(table.bytes() == 0);
  const std::uint32_t row = 0;
  CHECK(Apply(&table, {5}, &row, {1, 1, 1}));  // a row that never was
  CHECK(table.size() == 1);
  CHECK(table.bytes() > 0);
}

TEST_CASE("options are equal where each of them is") {
  const TableOptions options = OptionsOf(3);
  CHECK(options == OptionsOf(3));
  CHECK_FALSE(options == OptionsOf(4));
  CHECK_FALSE(options == OptionsOf(3, Rule::kAdam));
  CHECK_FALSE(options == OptionsOf(3, Rule::kSgd, 3));
  TableOptions other = options;
  other.initializer.seed = 77;
  CHECK_FALSE(options == other);
  other = options;
  other.weights = WeightType::kBfloat16;
  CHECK_FALSE(options == other);
}

// Runs `body(0)` to `body(count - 1)` at once.
void AtOnce(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Sums of whole numbers are exact in any order. Doctest's checks are left to the thread of the test.
void Sum(int shard_bits, bool overlapping) {
  constexpr int kThreads = 6, kRounds = 40;
  constexpr std::size_t kDim = 3, kKeys = 700, kPerRound = 150;
  TableOptions options = OptionsOf(kDim, Rule::kSgd, shard_bits);
  options.optimizer.learning_rate = 1;
  options.initializer = {};
  Table table(options);
  const std::vector<std::int64_t> all = Random(12).Keys(kKeys * kThreads);
  std::vector<std::vector<std::int64_t>> sums(kThreads, std::vector<std::int64_t>(all.size() * kDim, 0));
  std::atomic<int> wrong{0};
  AtOnce(kThreads, [&](int thread) {
    Random random(static_cast<std::uint64_t>(100 + thread));
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t first = overlapping ? 0 : static_cast<std::size_t>(thread) * kKeys;
      std::vector<std::int64_t> keys, numbers;
      for (std::size_t i = 0; i < kKeys; ++i) numbers.push_back(static_cast<std::int64_t>(first + i));
      numbers = Choose(numbers, kPerRound, &random);
      std::vector<float> gradients;
      for (const std::int64_t number : numbers) {
        keys.push_back(all[static_cast<std::size_t>(number)]);
        for (std::size_t j = 0; j < kDim; ++j) {
          const auto gradient = static_cast<std::int64_t>(random.Below(200)) - 100;
          gradients.push_back(static_cast<float>(gradient));
          sums[static_cast<std::size_t>(thread)][static_cast<std::size_t>(number) * kDim + j] += gradient;
        }
      }
      ShardOrder order;
      table.OrderByShard(keys, &order);
      std::vector<float> values(gradients.size());
      std::vector<std::uint32_t> rows(keys.size());
      const bool looks = round % 3 != 0;  // an update that nothing was looked up for inserts
      const Update update = table.NextUpdate(1);
      for (std::int32_t s = 0; s < table.shards(); ++s) {
        if (looks) {
          const LookupOutput to{.values = values.data(), .rows = rows.data()};
          wrong += table.LookupOrInsert(order, s, keys.data(), to) != Status::kOk;
        }
        const RowGradients of{.gradients = gradients.data(), .rows = looks ? rows.data() : nullptr};
        wrong += table.Apply(order, s, keys.data(), of, update, {}) != Status::kOk;
      }
    }
  });
  CHECK(wrong.load() == 0);
  CHECK(table.powers() == kThreads * kRounds);
  const std::vector<float> values = Lookup(table, all);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t sum = 0;
    for (const auto& each : sums) sum += each[i];
    wrong += values[i] != static_cast<float>(-sum);
  }
  CHECK(wrong.load() == 0);
  const std::vector<float> again = LookupOrInsert(&table, all);
  CHECK(table.size() == static_cast<std::int64_t>(all.size()));  // no key twice
  CHECK(again == values);
}

TEST_CASE("threads with keys of their own lose no update") { Sum(2, false); }

TEST_CASE("threads that share their keys lose no update") {
  Sum(0, true);
  Sum(3, true);
}

TEST_CASE("a row is never read half written") {
  constexpr std::int32_t kDim = 64;
  TableOptions options = OptionsOf(kDim, Rule::kSgd, 0);
  options.optimizer.learning_rate = 1;
  options.initializer = {};
  Table table(options);
  const std::vector<std::int64_t> keys{1, 2, 3};
  std::atomic<int> wrong{0}, writing{2};
  AtOnce(4, [&](int thread) {
    if (thread < 2) {
      for (int i = 0; i < 400; ++i) {
        const std::vector<float> gradients(keys.size() * kDim, thread == 0 ? 1.0f : -2.0f);
        wrong += !Apply(&table, keys, nullptr, gradients);
        // Growth moves the rows that others read.
        std::vector<std::int64_t> more(20);
        for (std::size_t j = 0; j < more.size(); ++j) {
          more[j] = 1000000 * (thread + 1) + i * 20 + static_cast<std::int64_t>(j);
        }
        wrong += !Apply(&table, more, nullptr, std::vector<float>(more.size() * kDim, 0.0f));
      }
      --writing;
      return;
    }
    while (writing > 0) {
      const std::vector<float> values = Lookup(table, keys);
      for (std::size_t i = 0; i < values.size(); ++i) wrong += values[i] != values[i / kDim * kDim];
    }
  });
  CHECK(wrong.load() == 0);
  CHECK(Lookup(table, keys) == std::vector<float>(keys.size() * kDim, 400.0f));
  CHECK(table.size() == 3 + 2 * 400 * 20);
}

TEST_CASE("a lookup gives no other key's weights, whoever removes and inserts meanwhile") {
  constexpr std::int32_t kDim = 4;
  Table table(OptionsOf(kDim, Rule::kSgd, 0));
  const Initializer initializer(table.options().initializer);
  std::atomic<int> wrong{0}, looking{2};
  AtOnce(4, [&](int thread) {
    if (thread < 2) {
      std::int64_t fresh = 1000000 * (thread + 1);
      for (int round = 0; round < 3000; ++round) {
        // 63 that come and go, and one that is new, for which the lookup must let go of the others.
        std::vector<std::int64_t> keys(64);
        for (std::size_t i = 0; i < 63; ++i) keys[i] = static_cast<std::int64_t>(i);
        keys[63] = fresh++;
        std::vector<std::uint32_t> rows(64, kNoRow);
        std::vector<float> values(64 * kDim), wanted(kDim);
        ShardOrder order;
        table.OrderByShard(keys, &order);
        const LookupOutput to{.values = values.data(), .rows = rows.data()};
        wrong += table.LookupOrInsert(order, 0, keys.data(), to) != Status::kOk;
        for (std::size_t i = 0; i < 64; ++i) {
          initializer.Fill(keys[i], wanted.data(), kDim);
          wrong += std::memcmp(wanted.data(), &values[i * kDim], kDim * sizeof(float)) != 0;
        }
        // Their numbers may be stale by now, even those of two keys the same: updates see to that.
        wrong += std::count(rows.begin(), rows.end(), kNoRow) != 0;
        table.Remove({&keys[63], 1});
      }
      --looking;
      return;
    }
    // What is removed gives its row to another key at once.
    for (std::int64_t i = 0; looking > 0; ++i) {
      const std::int64_t gone = i % 63, other = 5000 + i % 100;
      table.Remove({&gone, 1});
      wrong += !Apply(&table, {other}, nullptr, std::vector<float>(kDim, 0.0f));
      table.Remove({&other, 1});
    }
  });
  CHECK(wrong.load() == 0);
}

}  // namespace
}  // namespace afo
