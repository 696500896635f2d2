#include "afo/core/admission.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "afo/core/table.h"
#include "tests/core/support.h"
#include "tests/core/table_model.h"

namespace afo {
namespace {

using testing::Choose;
using testing::MirroredTable;
using testing::Random;
using testing::SlotMaps;
using testing::Told;

TableOptions OptionsOf(AdmissionOptions admission, int shard_bits = 2) {
  TableOptions options;
  options.dim = 3;
  options.shard_bits = shard_bits;
  options.optimizer.rule = Rule::kAdagrad;
  options.initializer = {.distribution = Distribution::kUniform, .minval = -0.5, .maxval = 0.5, .seed = 3};
  options.admission = admission;
  return options;
}

EvictionOptions PolicyOf(Random* random) {
  EvictionOptions policy;
  if (random->Below(2) == 0) policy.unused_steps = 1 + static_cast<std::uint32_t>(random->Below(40));
  if (random->Below(3) == 0) policy.l2_weight = 0.1f * static_cast<float>(random->Below(5));
  if (random->Below(3) == 0) policy.capacity = 1 + static_cast<std::int64_t>(random->Below(150));
  return policy;
}

void Interleave(const TableOptions& options, std::uint64_t seed) {
  Random random(seed);
  MirroredTable mirrored(options);
  const std::vector<std::int64_t> keys = random.Keys(200);
  StepInfo info;
  for (int i = 0; i < 120; ++i) {
    const std::vector<std::int64_t> chosen = Choose(keys, random.Below(80), &random);
    switch (random.Below(7)) {
      case 0:
        mirrored.LookupOrInsert(chosen);
        break;
      case 1:
        mirrored.Lookup(chosen);
        break;
      case 2:
        mirrored.Remove(Choose(chosen, 5, &random));
        break;
      case 3:
        mirrored.Evict(PolicyOf(&random), info.step + static_cast<std::uint32_t>(random.Below(10)));
        break;
      default: {
        std::vector<std::uint32_t> counts(chosen.size());
        for (std::uint32_t& count : counts) count = 1 + static_cast<std::uint32_t>(random.Below(3));
        info.step += static_cast<std::uint32_t>(random.Below(5));
        const auto told = static_cast<Told>(random.Below(static_cast<std::uint64_t>(Told::kEnd)));
        mirrored.Apply(chosen, random.Floats(chosen.size() * 3), told, &random, info,
                       random.Below(2) == 0 ? nullptr : counts.data());
      }
    }
  }
  mirrored.CompareAll();
}

TEST_CASE("filters and evictions do what a dictionary does, whatever comes after what") {
  for (const AdmissionOptions admission :
       {AdmissionOptions{}, AdmissionOptions{.min_count = 2}, AdmissionOptions{.min_count = 5, .default_value = -0.25f},
        AdmissionOptions{.probability = 0.3f, .default_value = 2}}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(admission.min_count);
      CAPTURE(admission.probability);
      CAPTURE(seed);
      CHECK_NOTHROW(Interleave(OptionsOf(admission, static_cast<int>(seed % 3)), seed));
    }
  }
}

TEST_CASE("a sighting admits with the probability that was asked for, and several with that of any of them") {
  Random random(1);
  for (const float probability : {0.01f, 0.3f, 0.9f}) {
    for (const std::uint32_t count : {1u, 4u}) {
      constexpr int kDraws = 40000;
      int admitted = 0;
      const AdmissionOptions options{.probability = probability};
      for (int i = 0; i < kDraws; ++i) admitted += AdmitByChance(options, random.Key(), i % 50, count);
      const double wanted = 1 - std::pow(1.0 - static_cast<double>(probability), count);
      const double deviation = std::sqrt(wanted * (1 - wanted) / kDraws);
      CAPTURE(probability);
      CAPTURE(count);
      CHECK(std::abs(admitted / static_cast<double>(kDraws) - wanted) < 5 * deviation);
    }
  }
  // One key's draws at different steps are independent: most keys are admitted sooner or later.
  int ever = 0;
  for (std::int64_t key = 0; key < 1000; ++key) {
    bool any = false;
    for (std::uint32_t step = 0; step < 20; ++step) any = any || AdmitByChance({.probability = 0.3f}, key, step, 1);
    ever += any;
  }
  CHECK(ever > 980);
}

// --- in checkpoints

void Train(Table* table, const std::vector<std::int64_t>& keys, std::uint32_t step) {
  ShardOrder order;
  table->OrderByShard(keys, &order);
  const std::vector<float> gradients(keys.size() * 3, 0.5f);
  const Update update = table->NextUpdate(1);
  for (std::int32_t shard = 0; shard < table->shards(); ++shard) {
    const Status status =
        table->Apply(order, shard, keys.data(), {.gradients = gradients.data()}, update, {1.0f, step});
    REQUIRE(status == Status::kOk);
  }
}

// Candidates, or cells, before rows, through bytes, as a checkpoint has them.
std::vector<RowBlock> Saved(const Table& table, std::int64_t since) {
  std::string bytes;
  const bool blooms = table.options().admission.blooms();
  for (const bool candidates : {true, false}) {
    for (std::int32_t shard = 0; shard < table.shards(); ++shard) {
      RowBlock block;
      if (!candidates && since != kAllEpochs) block = table.ExportRemoved(shard, since);
      for (std::optional<std::uint32_t> next = 0; next.has_value();) {
        const auto most = static_cast<std::uint32_t>(block.keys.size()) + 3;
        const ExportRange range{.shard = shard, .first = *next, .most = most, .since = since};
        Exported exported = !candidates ? table.Export(range, std::move(block))
                            : blooms    ? table.ExportCells(range, std::move(block))
                                        : table.ExportCandidates(range, std::move(block));
        block = std::move(exported.block);
        next = exported.next;
      }
      bytes += Encode(block);
    }
  }
  std::vector<RowBlock> blocks;
  for (std::size_t at = 0; at < bytes.size();) {
    DecodedBlock decoded = Decode(std::string_view(bytes).substr(at), 6);
    REQUIRE(decoded.error == BlockError::kNone);
    at += decoded.bytes;
    blocks.push_back(std::move(decoded.block));
  }
  return blocks;
}

// key: (its count and step, or those of its row with the first value).
using State = std::map<std::int64_t, std::vector<float>>;

State StateOf(const Table& table) {
  State state;
  for (const RowBlock& block : Saved(table, kAllEpochs)) {
    if (block.kind == BlockKind::kCells) continue;
    for (std::size_t i = 0; i < block.keys.size(); ++i) {
      std::vector<float> known{static_cast<float>(block.frequencies[i]), static_cast<float>(block.steps[i])};
      if (block.kind == BlockKind::kRows) known.push_back(block.values[i * 6]);
      CHECK(state.emplace(block.keys[i], known).second);  // waiting or admitted, not both
    }
  }
  return state;
}

TEST_CASE("keys that wait, rows and evictions come back from a checkpoint and its deltas, on any number of servers") {
  Random random(3);
  Table table(OptionsOf({.min_count = 3}));
  std::vector<std::vector<RowBlock>> saved;
  std::int64_t since = kAllEpochs;
  const std::vector<std::int64_t> keys = random.Keys(300);
  for (std::uint32_t step = 1; step < 30; ++step) {
    Train(&table, Choose(keys, 40, &random), step);
    if (step % 5 != 0) continue;
    table.Evict({.unused_steps = 9}, step);
    const auto epoch = static_cast<std::int64_t>(table.BeginEpoch());
    saved.push_back(Saved(table, since));
    since = epoch;
    State wanted = StateOf(table);
    // A candidate that was evicted is not taken back: it is in the base, with the step that has it evicted again.
    for (const SlotMap& slots : SlotMaps({1, 3})) {
      State got;
      for (std::uint32_t server = 0; server < slots.servers(); ++server) {
        Table restored(OptionsOf({.min_count = 3}, 1));
        for (const auto& blocks : saved) {
          for (const RowBlock& block : blocks) REQUIRE(restored.Import(block, slots.RangeOf(server)).has_value());
        }
        restored.Evict({.unused_steps = 9}, step);
        for (const auto& [key, known] : StateOf(restored)) {
          CHECK(slots.Owns(server, HashOf(key)));
          got[key] = known;
        }
      }
      CHECK(got == wanted);
    }
  }
  CHECK(table.size() > 20);
  CHECK(StateOf(table).size() > static_cast<std::size_t>(table.size()) + 20);
}

TEST_CASE("batches, evictions and exports of a table at once leave each key waiting or admitted, and not both") {
  Random random(5);
  Table table(OptionsOf({.min_count = 3}));
  const std::vector<std::int64_t> keys = random.Keys(400);
  std::vector<std::thread> threads;
  for (std::uint64_t worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&table, &keys, worker] {
      Random own(worker);
      for (std::uint32_t step = 1; step < 60; ++step) Train(&table, Choose(keys, 60, &own), step);
    });
  }
  threads.emplace_back([&table] {
    for (std::uint32_t step = 1; step < 60; ++step) table.Evict({.unused_steps = 20, .capacity = 150}, step);
  });
  threads.emplace_back([&table] {
    for (int i = 0; i < 10; ++i) Saved(table, static_cast<std::int64_t>(table.BeginEpoch()) - 1);
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(StateOf(table).size() > 0);
  table.Evict({.capacity = 100}, 60);
  CHECK(table.size() <= 100 + 4);
}

TEST_CASE("a table that admits all keys has no use for those that wait") {
  Table counting(OptionsOf({.min_count = 3})), open(OptionsOf({}));
  Train(&counting, {1, 2}, 1);
  for (const RowBlock& block : Saved(counting, kAllEpochs)) CHECK(open.Import(block, {}) == 0);
  CHECK(open.size() == 0);
  CHECK(StateOf(open).empty());
  CHECK(StateOf(counting).size() == 2);
  counting.Clear();
  CHECK(StateOf(counting).empty());
}

TEST_CASE("a key that waits takes no row's memory") {
  TableOptions options = OptionsOf({.min_count = 2}, 0);
  options.dim = 64;
  Random random(4);
  const std::vector<std::int64_t> keys = random.Keys(100000);
  Table table(options);
  ShardOrder order;
  table.OrderByShard(keys, &order);
  const std::vector<float> gradients(keys.size() * 64);
  REQUIRE(table.Apply(order, 0, keys.data(), {.gradients = gradients.data()}, table.NextUpdate(1), {}) == Status::kOk);
  CHECK(table.size() == 0);
  CHECK(table.bytes() < 100000 * 36);  // a header of 16, the index, and room to grow; a row has 528
}

}  // namespace
}  // namespace afo
