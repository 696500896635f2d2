#include "afo/core/store.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace afo {
namespace {

TableOptions TableOf(std::int32_t dim) {
  TableOptions options;
  options.dim = dim;
  options.shard_bits = 1;
  return options;
}

OptimizerOptions OptimizerOf(Rule rule) {
  OptimizerOptions options;
  options.rule = rule;
  return options;
}

TEST_CASE("tables of a store are created once and alike, and found by their numbers") {
  Store store;
  CHECK(store.AddTable(3, TableOf(4)) == Creation::kOk);
  CHECK(store.AddTable(3, TableOf(4)) == Creation::kOk);
  CHECK(store.AddTable(3, TableOf(5)) == Creation::kConflict);
  CHECK(store.AddTable(0, TableOf(5)) == Creation::kOk);
  CHECK(store.AddTable(-1, TableOf(5)) == Creation::kOutOfRange);
  CHECK(store.AddTable(kMostTables, TableOf(5)) == Creation::kOutOfRange);
  CHECK(store.tables() == 2);
  const FoundTables found = store.FindTables(std::vector<std::int32_t>{3, 0, 3});
  REQUIRE(!found.missing.has_value());
  REQUIRE(found.tables.size() == 3);
  CHECK(found.tables[0]->options().dim == 4);
  CHECK(found.tables[1]->options().dim == 5);
  CHECK(found.tables[2] == found.tables[0]);
  for (const std::int32_t absent : {1, 4, -1, INT32_MAX, INT32_MIN}) {
    CHECK(store.FindTables(std::vector<std::int32_t>{3, absent}).missing == absent);
  }
}

TEST_CASE("dense weights of a store are created once and alike") {
  Store store;
  CHECK(store.dense() == nullptr);
  CHECK(store.CreateDense(OptimizerOf(Rule::kGroupFtrl), 5) == Creation::kOutOfRange);
  CHECK(store.CreateDense(OptimizerOf(Rule::kAdam), -1) == Creation::kOutOfRange);
  CHECK(store.CreateDense(OptimizerOf(Rule::kAdam), kMostDenseWeights + 1) == Creation::kOutOfRange);
  CHECK(store.dense() == nullptr);
  CHECK(store.CreateDense(OptimizerOf(Rule::kAdam), 5) == Creation::kOk);
  const DenseWeights* dense = store.dense();
  REQUIRE(dense != nullptr);
  CHECK(store.CreateDense(OptimizerOf(Rule::kAdam), 5) == Creation::kOk);
  CHECK(store.dense() == dense);
  CHECK(store.CreateDense(OptimizerOf(Rule::kAdam), 6) == Creation::kConflict);
  CHECK(store.CreateDense(OptimizerOf(Rule::kSgd), 5) == Creation::kConflict);
}

TEST_CASE("a store counts the memory of all that is in it") {
  Store store;
  const std::size_t empty = store.bytes();
  CHECK(store.CreateDense(OptimizerOf(Rule::kAdagrad), 100000) == Creation::kOk);
  const std::size_t dense = store.bytes();
  CHECK(dense >= empty + 800000);
  CHECK(store.AddTable(0, TableOf(4)) == Creation::kOk);
  REQUIRE(store.progress().Advance(std::vector<std::int64_t>{1}, std::vector<Position>{{0, 1, 2}}, {}).wrong == "");
  CHECK(store.bytes() > dense);
}

TEST_CASE("several clients create the same at once") {
  Store store;
  std::vector<std::thread> clients;
  std::vector<std::uint8_t> created(4);
  for (std::size_t i = 0; i < created.size(); ++i) {
    clients.emplace_back([&store, &created, i] {
      bool ok = store.CreateDense(OptimizerOf(Rule::kAdam), 5000) == Creation::kOk;
      for (std::int64_t number = 0; number < 20; ++number) ok &= store.AddTable(number, TableOf(4)) == Creation::kOk;
      created[i] = ok && store.dense() != nullptr;
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(created == std::vector<std::uint8_t>(4, 1));
  CHECK(store.tables() == 20);
}

}  // namespace
}  // namespace afo
