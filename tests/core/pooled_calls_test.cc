#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "afo/core/bfloat16.h"
#include "tests/core/call_support.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::Arguments;
using testing::Done;
using testing::KindOf;
using testing::Random;
using testing::Scalar;
using testing::TableCall;
using testing::Vector;

using Ints = std::vector<std::int32_t>;
using Longs = std::vector<std::int64_t>;
using Floats = std::vector<float>;

constexpr auto kFloat = static_cast<std::int64_t>(PartType::kFloat32);
constexpr auto kShort = static_cast<std::int64_t>(PartType::kBfloat16);

// Tables 0 and 1, whose rows differ: 2 and 3 wide.
std::unique_ptr<Store> MadeStore() {
  auto store = std::make_unique<Store>();
  for (const std::int64_t number : {0, 1}) {
    Call call = TableCall(number, 2 + number, 0);
    call.texts[1] = "uniform";
    call.texts[3] = "maxval";
    call.floats[4] = 2;
    REQUIRE(KindOf(store.get(), call) == FailureKind::kNone);
  }
  return store;
}

// Bags of three runs, of tables 0, 1 and 0; the last shortens rows to 1.
struct Batch {
  Longs numbers{0, 1}, tables{0, 1, 0};
  Floats norms{0, 0, 1};
  Longs keys{11, 12, 13, 21, 22};
  Ints splits{0, 3, 5};
  Ints samples{2, 3, 1};
  Ints lengths{2, 1, 0, 3, 1, 2};
  Ints places{0, 2, 1, 0, 1, 1, 0, 2, 2};
  Floats weights;
  bool is_far = false;

  Longs ints() const {
    Longs all{static_cast<std::int64_t>(numbers.size())};
    all.insert(all.end(), numbers.begin(), numbers.end());
    all.insert(all.end(), tables.begin(), tables.end());
    return all;
  }
  Arguments arguments() const {
    const std::vector<std::uint16_t> near(places.begin(), places.end());
    return Arguments(Vector(keys), Vector(splits), Vector(samples), Vector(lengths),
                     Vector(is_far ? std::vector<std::uint16_t>{} : near), Vector(is_far ? places : Ints{}),
                     Vector(weights));
  }
  // Calls work(run, sample's number in the answer, its first float there, id) for each id.
  template <typename Work>
  void ForEachId(const Work& work) const {
    std::size_t sample = 0, id = 0, first = 0;
    for (std::size_t run = 0; run < samples.size(); ++run) {
      for (std::int32_t i = 0; i < samples[run]; ++i, ++sample) {
        for (std::int32_t j = 0; j < lengths[sample]; ++j, ++id) work(run, first, id);
        first += 2 + static_cast<std::size_t>(tables[run]);
      }
    }
  }
};

Done Pool(Store* store, const Batch& batch, std::int64_t insert, std::int64_t type) {
  Longs ints{insert, type};
  for (const std::int64_t each : batch.ints()) ints.push_back(each);
  return Do(store, {Function::kPoolRows, ints, batch.norms, {}}, batch.arguments());
}

template <typename T>
Done Push(Store* store, const Batch& batch, const std::vector<T>& gradients, PartType type) {
  Arguments arguments = batch.arguments();
  arguments.all.push_back(Vector(Ints{}));
  arguments.all.push_back(Vector(Ints{}));
  arguments.all.push_back(Vector(gradients, type));
  arguments.all.push_back(Scalar(1.0f));
  arguments.all.push_back(Scalar(std::int64_t{3}));
  return Do(store, {Function::kApplyPooled, batch.ints(), batch.norms, {}}, arguments);
}

// The rows of a batch's keys as they are, or would be.
std::vector<Floats> RowsOf(Store* store, const Batch& batch) {
  const Floats flat = Do(store, {Function::kLookupRows, {0, 0, 1}, {}, {}},
                         Arguments(Vector(batch.keys), Vector(batch.splits)))
                          .values<float>(0);
  std::vector<Floats> rows;
  auto at = flat.begin();
  for (std::int32_t i = 0; i < batch.splits[2]; ++i) {
    const int dim = i < batch.splits[1] ? 2 : 3;
    rows.emplace_back(at, at + dim);
    at += dim;
  }
  return rows;
}

double LengthOf(const Floats& row) {
  double squares = 0;
  for (const float each : row) squares += double{each} * each;
  return std::sqrt(squares);
}

// The sums by the plain definition.
std::vector<double> SumsOf(Store* store, const Batch& batch, std::size_t floats) {
  const std::vector<Floats> rows = RowsOf(store, batch);
  std::vector<double> sums(floats);
  batch.ForEachId([&](std::size_t run, std::size_t first, std::size_t id) {
    const Floats& row = rows[static_cast<std::size_t>(batch.splits[batch.tables[run]] + batch.places[id])];
    double factor = batch.weights.empty() ? 1 : batch.weights[id];
    const double norm = batch.norms[run];
    if (norm > 0 && LengthOf(row) > norm) factor *= norm / LengthOf(row);
    for (std::size_t i = 0; i < row.size(); ++i) sums[first + i] += factor * row[i];
  });
  return sums;
}

// With more samples than are made short at once, and keys of more sets than are meant.
Batch LargeBatch(bool weighted, bool is_far) {
  Random random(3);
  Batch batch;
  batch.keys = random.Keys(45);
  batch.splits = {0, 20, 40, 45};
  batch.samples = {600, 0, 5};
  batch.lengths.clear();
  for (int i = 0; i < 605; ++i) batch.lengths.push_back(static_cast<std::int32_t>(random.Below(4)));
  batch.places.clear();
  batch.ForEachId([&](std::size_t, std::size_t, std::size_t) {
    batch.places.push_back(static_cast<std::int32_t>(random.Below(20)));
  });
  if (weighted) batch.weights = random.Floats(batch.places.size());
  batch.is_far = is_far;
  return batch;
}

TEST_CASE("pooled calls answer the sums of their samples") {
  for (const Batch& batch : {Batch(), LargeBatch(false, false), LargeBatch(true, true), LargeBatch(true, false)}) {
    const auto store = MadeStore();
    const Done read = Pool(store.get(), batch, 0, kFloat);
    REQUIRE(read.failure.words == "");
    CHECK(read.results[1].dims == Longs{0});
    const Floats sums = read.values<float>(0);
    const std::vector<double> plain = SumsOf(store.get(), batch, sums.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) wrong += std::abs(sums[i] - plain[i]) > 1e-5;
    CHECK(wrong == 0);
    CHECK(std::any_of(sums.begin(), sums.end(), [](float sum) { return sum != 0; }));
    // Short ones are these, rounded, and a lookup that inserts answers the same.
    const Done inserted = Pool(store.get(), batch, 1, kShort);
    REQUIRE(inserted.results[0].type == PartType::kBfloat16);
    const auto rounded = inserted.results[0].values<std::uint16_t>();
    REQUIRE(rounded.size() == sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) wrong += rounded[i] != NearestBfloat16(sums[i]);
    CHECK(wrong == 0);
    const Ints rows = inserted.values<std::int32_t>(1);
    CHECK(rows.size() == static_cast<std::size_t>(batch.splits[2]));
    CHECK(std::count(rows.begin(), rows.end(), -1) == 0);
  }
}

TEST_CASE("pooled gradients change each row by the sum of what its samples say") {
  for (const bool is_short : {false, true}) {
    for (Batch batch : {Batch(), LargeBatch(true, true), LargeBatch(false, false)}) {
      batch.norms = {0, 0, 0};
      const auto store = MadeStore();
      const std::vector<Floats> before = RowsOf(store.get(), batch);
      Floats gradients = Random(4).Floats(Pool(store.get(), batch, 0, kFloat).values<float>(0).size());
      std::vector<std::uint16_t> rounded;
      for (float& each : gradients) {
        rounded.push_back(NearestBfloat16(each));
        if (is_short) each = WidenedBfloat16(rounded.back());
      }
      const Done done = is_short ? Push(store.get(), batch, rounded, PartType::kBfloat16)
                                 : Push(store.get(), batch, gradients, PartType::kFloat32);
      REQUIRE(done.failure.words == "");
      std::vector<std::vector<double>> wanted;
      for (const Floats& row : before) wanted.emplace_back(row.begin(), row.end());
      batch.ForEachId([&](std::size_t run, std::size_t first, std::size_t id) {
        auto& row = wanted[static_cast<std::size_t>(batch.splits[batch.tables[run]] + batch.places[id])];
        const double weight = batch.weights.empty() ? 1 : batch.weights[id];
        for (std::size_t i = 0; i < row.size(); ++i) row[i] -= 0.5 * weight * gradients[first + i];
      });
      const std::vector<Floats> after = RowsOf(store.get(), batch);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        for (std::size_t j = 0; j < after[i].size(); ++j) wrong += std::abs(after[i][j] - wanted[i][j]) > 1e-4;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a pooled gradient goes along the sphere where a norm shortened the row") {
  const auto store = MadeStore();
  Batch batch;
  batch.tables = {0};
  batch.norms = {0.01f};
  batch.samples = {1};
  batch.lengths = {1};
  batch.places = {1};
  const Floats before = RowsOf(store.get(), batch)[1];
  // The gradient along the row itself changes nothing.
  REQUIRE(!Push(store.get(), batch, before, PartType::kFloat32).failure.happened());
  const Floats after = RowsOf(store.get(), batch)[1];
  CHECK(after[0] == doctest::Approx(before[0]));
  CHECK(after[1] == doctest::Approx(before[1]));
}

TEST_CASE("pooled calls whose bags do not agree with their keys are refused") {
  std::vector<Batch> wrong(26);
  std::size_t next = 0;
  const auto other = [&]() -> Batch& { return wrong[next++]; };
  other().tables[1] = 2;
  other().tables[1] = -1;
  other().tables[1] = INT64_MIN;
  other().tables.push_back(0);
  other().tables.pop_back();
  other().norms.push_back(0);
  other().norms.clear();
  other().samples = {2, 3};
  other().samples = {2, 3, 1, 0};
  other().samples = {2, 3, 2};
  other().samples = {2, 2, 1};
  other().samples = {-1, 3, 4};
  other().samples = {INT32_MAX, INT32_MIN, 1};
  other().samples = {7, -2, 1};
  other().lengths[0] = 3;
  other().lengths[5] = 1;
  other().lengths[0] = -1;
  other().lengths[2] = INT32_MAX;
  other().lengths[2] = INT32_MIN;
  other().places[0] = 3;
  other().places[3] = 2;
  other().places.pop_back();
  other().places.push_back(0);
  other().weights = {1};
  other().weights = Floats(10, 1);
  other().splits = {0, 2, 4};
  REQUIRE(next == wrong.size());
  const auto store = MadeStore();
  REQUIRE(!Pool(store.get(), Batch(), 1, kFloat).failure.happened());
  const std::string before = testing::ContentOf(store.get());
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    CAPTURE(i);
    for (const bool is_far : {false, true}) {
      wrong[i].is_far = is_far;
      wrong[i].keys.back() = 99;  // would be inserted
      CHECK(Pool(store.get(), wrong[i], 1, kFloat).failure.kind == FailureKind::kInvalid);
      CHECK(Push(store.get(), wrong[i], Floats(15), PartType::kFloat32).failure.kind == FailureKind::kInvalid);
    }
  }
  for (const std::int32_t place : {-1, 3, INT32_MIN, INT32_MAX}) {
    Batch batch;
    batch.is_far = true;
    batch.places[1] = place;
    CHECK(Pool(store.get(), batch, 1, kFloat).failure.kind == FailureKind::kInvalid);
  }
  CHECK(testing::ContentOf(store.get()) == before);
}

TEST_CASE("pooled calls refuse other types of sums, and other gradients than those of the sums") {
  const auto store = MadeStore();
  for (const std::int64_t type : {std::int64_t{0}, std::int64_t{2}, kFloat + 256, kShort + 256, -kFloat, INT64_MAX}) {
    CAPTURE(type);
    CHECK(Pool(store.get(), Batch(), 1, type).failure.kind == FailureKind::kInvalid);
  }
  Batch both;
  Arguments arguments = both.arguments();
  arguments.all[5] = Vector(both.places);
  CHECK(KindOf(store.get(), {Function::kPoolRows, {1, kFloat, 2, 0, 1, 0, 1, 0}, both.norms, {}}, arguments) ==
        FailureKind::kInvalid);
  for (const std::size_t count : {0, 14, 16}) {
    CHECK(Push(store.get(), Batch(), Floats(count), PartType::kFloat32).failure.kind == FailureKind::kInvalid);
    const std::vector<std::uint16_t> rounded(count);
    CHECK(Push(store.get(), Batch(), rounded, PartType::kBfloat16).failure.kind == FailureKind::kInvalid);
    CHECK(Push(store.get(), Batch(), rounded, PartType::kUint16).failure.kind == FailureKind::kInvalid);
  }
  CHECK(store->FindTables(Ints{0}).tables[0]->size() == 0);
  CHECK(!Push(store.get(), Batch(), Floats(15), PartType::kFloat32).failure.happened());
}

}  // namespace
}  // namespace afo
