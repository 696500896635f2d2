#include "afo/core/batch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/core/support.h"

namespace afo {
namespace {

using testing::Random;

// As a pool of three threads might: units in small ranges, in any order.
void OnThreads(std::int64_t units, std::int64_t, const Body& body) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (std::int64_t first = next.fetch_add(2); first < units; first = next.fetch_add(2)) {
        body(first, std::min(first + 2, units));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Tables {
  std::vector<std::unique_ptr<Table>> all;

  Tables() {
    const Rule rules[] = {Rule::kAdam, Rule::kSgd, Rule::kAdagrad, Rule::kAdam};
    for (std::int32_t i = 0; i < 4; ++i) {
      TableOptions options;
      options.dim = 1 + 3 * i;
      options.shard_bits = i;
      options.optimizer.rule = rules[i];
      options.initializer = {.distribution = Distribution::kUniform, .minval = -1, .maxval = 1};
      options.initializer.seed = static_cast<std::uint64_t>(i);
      all.push_back(std::make_unique<Table>(options));
    }
  }

  std::vector<TablePart> parts(const std::vector<std::vector<std::int64_t>>& keys) const {
    std::vector<TablePart> parts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      parts.push_back({all[i].get(), keys[i].data(), static_cast<std::int64_t>(keys[i].size())});
    }
    return parts;
  }
};

std::vector<LookupOutput> Outputs(std::vector<std::vector<float>>& values) {
  std::vector<LookupOutput> all;
  for (auto& each : values) all.push_back({.values = each.data()});
  return all;
}

// What three batches leave behind, looked up at the end.
std::vector<std::vector<float>> Train(const Tables& tables, const Parallel& parallel, bool tells_rows) {
  Random random(1);
  std::vector<std::vector<std::int64_t>> every(4);
  for (int step = 1; step <= 3; ++step) {
    // The second table has no keys in the second batch.
    std::vector<std::vector<std::int64_t>> keys;
    for (std::size_t i = 0; i < 4; ++i) keys.push_back(random.Keys(i == 1 && step == 2 ? 0 : 200 + 50 * i));
    const std::vector<TablePart> parts = tables.parts(keys);
    std::vector<std::vector<float>> values, gradients;
    std::vector<std::vector<std::uint32_t>> rows, counts;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto dim = static_cast<std::size_t>(tables.all[i]->options().dim);
      if (step > 1) {  // half of them known
        for (std::size_t j = 0; j < keys[i].size(); j += 2) keys[i][j] = every[i][j];
      }
      every[i].insert(every[i].end(), keys[i].begin(), keys[i].end());
      values.emplace_back(keys[i].size() * dim);
      gradients.push_back(random.Floats(keys[i].size() * dim));
      rows.emplace_back(keys[i].size());
      counts.emplace_back(keys[i].size(), 2);
    }
    std::vector<LookupOutput> outputs = Outputs(values);
    for (std::size_t i = 0; tells_rows && i < 4; ++i) outputs[i].rows = rows[i].data();
    CHECK(LookupOrInsert(parts, outputs, parallel) == Status::kOk);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto dim = static_cast<std::size_t>(tables.all[i]->options().dim);
      const Initializer initializer(tables.all[i]->options().initializer);
      std::vector<float> first(dim);
      for (std::size_t j = 1; j < keys[i].size(); j += 2) {  // those that are new
        initializer.Fill(keys[i][j], first.data(), static_cast<std::int32_t>(dim));
        REQUIRE(std::equal(first.begin(), first.end(), &values[i][j * dim]));
      }
    }
    StepInfo info;
    info.step = static_cast<std::uint32_t>(step);
    info.schedule = 1.0f / static_cast<float>(step);
    std::vector<RowGradients> of;
    for (std::size_t i = 0; i < 4; ++i) {
      of.push_back({.gradients = gradients[i].data()});
      if (tells_rows) of[i] = {.gradients = gradients[i].data(), .rows = rows[i].data(), .counts = counts[i].data()};
    }
    CHECK(Apply(parts, of, info, parallel) == Status::kOk);
  }
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < 4; ++i) {
    values.emplace_back(every[i].size() * static_cast<std::size_t>(tables.all[i]->options().dim));
  }
  Lookup(tables.parts(every), Outputs(values), parallel);
  return values;
}

TEST_CASE("a batch over many tables is the same on any threads, told of its rows or not") {
  Tables one, other, third;
  const std::vector<std::vector<float>> serial = Train(one, Serial, true);
  CHECK(Train(other, OnThreads, true) == serial);
  CHECK(Train(third, OnThreads, false) == serial);
  for (std::size_t i = 0; i < 4; ++i) CHECK(one.all[i]->size() == other.all[i]->size());
}

TEST_CASE("a table that a batch does not touch has not been updated") {
  Tables tables;
  Train(tables, Serial, true);
  CHECK(tables.all[0]->powers() == 3);
  CHECK(tables.all[1]->powers() == 2);
  CHECK(tables.all[3]->powers() == 3);
}

TEST_CASE("a batch of nothing does nothing") {
  CHECK(LookupOrInsert({}, {}, Serial) == Status::kOk);
  CHECK(Apply({}, {}, {}, Serial) == Status::kOk);
  Lookup({}, {}, Serial);
  Tables tables;
  const std::vector<std::vector<std::int64_t>> none(4);
  std::vector<std::vector<float>> values(4);
  CHECK(LookupOrInsert(tables.parts(none), Outputs(values), OnThreads) == Status::kOk);
  CHECK(Apply(tables.parts(none), std::vector<RowGradients>(4), {}, OnThreads) == Status::kOk);
  for (const auto& table : tables.all) {
    CHECK(table->size() == 0);
    CHECK(table->powers() == 0);
  }
}

}  // namespace
}  // namespace afo
