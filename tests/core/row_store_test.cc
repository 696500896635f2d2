#include "afo/core/row_store.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "tests/core/support.h"

namespace afo {
namespace {

float* WeightsOf(const RowStore& rows, std::uint32_t row) { return static_cast<float*>(rows.weights(row)); }

TEST_CASE("rows are padded to 16 bytes, and values begin aligned to them") {
  CHECK(RowLayout{1, 1}.stride() == 32);
  CHECK(RowLayout{4, 4}.stride() == 32);
  CHECK(RowLayout{4, 5}.stride() == 48);
  CHECK(RowLayout{16, 48}.stride() == 16 + 192);
  CHECK(RowLayout{8, 16, WeightType::kBfloat16}.stride() == 16 + 16 + 32);
  CHECK(RowLayout{8, 24, WeightType::kBfloat16}.stride() == 16 + 16 + 64);
  CHECK(RowLayout{3, 3, WeightType::kBfloat16}.stride() == 32);
  CHECK(RowLayout{3, 6, WeightType::kBfloat16}.slots_at() == 8);  // two bytes to the next float
  CHECK(RowLayout{4096, 4096 * 3, WeightType::kBfloat16}.stride() == 16 + 4096 * 10);
  for (const WeightType type : {WeightType::kFloat32, WeightType::kBfloat16}) {
    RowStore rows(RowLayout{3, 9, type});
    REQUIRE(rows.Reserve(10));
    for (int i = 0; i < 10; ++i) {
      const std::uint32_t row = rows.Take();
      CHECK(reinterpret_cast<std::uintptr_t>(rows.weights(row)) % 16 == 0);
      CHECK(static_cast<char*>(rows.weights(row)) - reinterpret_cast<char*>(rows.header(row)) == sizeof(RowHeader));
      CHECK(reinterpret_cast<std::uintptr_t>(rows.slots(row)) % sizeof(float) == 0);
    }
  }
}

TEST_CASE("a header keeps 24 bits of frequency beside the epoch") {
  RowHeader header{1, 2, 0};
  header.set_counters(5, 200);
  CHECK(header.frequency() == 5);
  CHECK(header.epoch() == 200);
  header.set_counters(kMaxFrequency, 255);
  CHECK(header.frequency() == kMaxFrequency);
  CHECK(header.epoch() == 255);
  header.set_counters(std::uint64_t{kMaxFrequency} + 1, 0);
  CHECK(header.frequency() == kMaxFrequency);
  CHECK(header.epoch() == 0);
  header.set_counters(std::uint64_t{1} << 40, 7);
  CHECK(header.frequency() == kMaxFrequency);
  CHECK(header.epoch() == 7);
}

TEST_CASE("rows keep their number and their values while the store grows") {
  constexpr std::int32_t kFloats = 5;
  RowStore rows(RowLayout{kFloats, kFloats});
  for (std::uint32_t i = 0; i < 30000; ++i) {
    REQUIRE(rows.Reserve(1));
    const std::uint32_t row = rows.Take();
    REQUIRE(row == i);
    rows.header(row)->key = i;
    for (int j = 0; j < kFloats; ++j) WeightsOf(rows, row)[j] = static_cast<float>(i * 8 + j);
  }
  CHECK(rows.end() == 30000);
  CHECK(rows.bytes() >= 30000 * rows.stride());
  CHECK(rows.bytes() < 30000 * rows.stride() * 5 / 4);  // no doubling of what the kernel gives
  int wrong = 0;
  for (std::uint32_t i = 0; i < 30000; ++i) {
    wrong += rows.header(i)->key != i;
    for (int j = 0; j < kFloats; ++j) wrong += WeightsOf(rows, i)[j] != static_cast<float>(i * 8 + j);
  }
  CHECK(wrong == 0);
}

TEST_CASE("a store of a few rows stays small") {
  RowStore rows(RowLayout{16, 48});
  REQUIRE(rows.Reserve(1));
  rows.Take();
  CHECK(rows.bytes() <= 32u << 10);
}

TEST_CASE("freed rows come back, each once, before a new one does") {
  testing::Random random(2);
  RowStore rows(RowLayout{2, 2});
  std::set<std::uint32_t> taken;
  std::uint32_t most = 0;
  int wrong = 0;
  for (int step = 0; step < 20000; ++step) {
    if (taken.empty() || random.Below(100) < (step < 10000 ? 60u : 45u)) {
      REQUIRE(rows.Reserve(1));
      const std::uint32_t row = rows.Take();
      wrong += !taken.insert(row).second;  // of somebody else
      wrong += rows.header(row)->is_free() || rows.header(row)->step != 0 || rows.header(row)->counters != 0;
      rows.header(row)->key = row;
      WeightsOf(rows, row)[1] = static_cast<float>(row);
    } else {
      auto row = taken.lower_bound(static_cast<std::uint32_t>(random.Below(rows.end())));
      if (row == taken.end()) row = taken.begin();
      wrong += rows.header(*row)->key != *row || WeightsOf(rows, *row)[1] != static_cast<float>(*row);
      rows.Free(*row);
      wrong += !rows.header(*row)->is_free();
      taken.erase(row);
    }
    most = std::max(most, static_cast<std::uint32_t>(taken.size()));
    wrong += rows.end() != most;  // never more rows than there ever were at once
  }
  CHECK(wrong == 0);
  for (std::uint32_t row = 0; row < rows.end(); ++row) wrong += rows.header(row)->is_free() == (taken.count(row) == 1);
  CHECK(wrong == 0);
}

TEST_CASE("room for free rows needs no memory; for more than them it does") {
  RowStore rows(RowLayout{252, 252});  // four of them a page
  REQUIRE(rows.Reserve(1000));
  for (int i = 0; i < 1000; ++i) rows.Take();
  for (std::uint32_t row = 0; row < 1000; ++row) rows.Free(row);
  const std::size_t before = rows.bytes();
  REQUIRE(rows.Reserve(1000));
  CHECK(rows.bytes() == before);
  REQUIRE(rows.Reserve(5000));
  CHECK(rows.bytes() >= 5000 * rows.stride());
  CHECK(rows.bytes() < 5700 * rows.stride());  // the free ones count
  for (int i = 0; i < 5000; ++i) WeightsOf(rows, rows.Take())[251] = 1;
  CHECK(rows.end() == 5000);
}

TEST_CASE("a store that has no more numbers says so, and goes on") {
  RowStore rows(RowLayout{1, 1});
  REQUIRE(rows.Reserve(1));
  WeightsOf(rows, rows.Take())[0] = 3;
  CHECK_FALSE(rows.Reserve(kNoRow));
  CHECK_FALSE(rows.Reserve(std::size_t{1} << 33));
  REQUIRE(rows.Reserve(1));
  CHECK(rows.Take() == 1);
  CHECK(WeightsOf(rows, 0)[0] == 3);
}

}  // namespace
}  // namespace afo
