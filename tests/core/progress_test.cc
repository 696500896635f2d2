#include "afo/core/progress.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/core/support.h"

namespace afo {
namespace {

using testing::Random;

constexpr PartType kStateTypes[] = {PartType::kFloat32, PartType::kFloat64, PartType::kInt8,   PartType::kInt16,
                                    PartType::kInt32,   PartType::kInt64,   PartType::kUint8,  PartType::kUint16,
                                    PartType::kUint32,  PartType::kUint64};

template <typename Number>
StateArray ArrayOf(PartType type, std::vector<std::int64_t> dims, const std::vector<Number>& numbers) {
  StateArray array{type, std::move(dims), std::vector<char>(numbers.size() * sizeof(Number))};
  if (!numbers.empty()) std::memcpy(array.bytes.data(), numbers.data(), array.bytes.size());
  return array;
}

MessagePart PartOf(const StateArray& array) { return {array.type, array.dims, array.bytes.data(), array.bytes.size()}; }

std::vector<MessagePart> PartsOf(const std::vector<StateArray>& arrays) {
  std::vector<MessagePart> parts;
  for (const StateArray& array : arrays) parts.push_back(PartOf(array));
  return parts;
}

Position PositionOf(Random* random) {
  const auto epoch = static_cast<std::int64_t>(random->Below(9)), count = static_cast<std::int64_t>(random->Below(999));
  return {epoch, count, random->Key()};
}

// Mostly small, as splits are; the ends of pages; and the last that there may be.
std::int64_t SplitOf(Random* random) {
  const std::vector<std::int64_t> ends{0, 1023, 1024, 2047, 2048, 100000, kMostSplits - 1};
  return random->Below(4) == 0 ? ends[random->Below(ends.size())] : static_cast<std::int64_t>(random->Below(5000));
}

TEST_CASE("progress is what a map of positions and a counter are, whatever happens") {
  Random random(1);
  Progress progress;
  std::map<std::int64_t, Position> expected;
  std::int64_t step = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    std::vector<std::int64_t> splits(random.Below(4));
    for (std::int64_t& split : splits) split = SplitOf(&random);
    if (random.Below(2) == 0) {
      std::vector<Position> positions;
      for (const std::int64_t split : splits) positions.push_back(expected[split] = PositionOf(&random));
      // Of a split that occurs twice the last one stays.
      const AdvancedStep advanced = progress.Advance(splits, positions, {});
      REQUIRE(advanced.wrong == "");
      REQUIRE(advanced.step == ++step);
    } else {
      const ReadProgress read = progress.Read(splits);
      REQUIRE(read.wrong == "");
      REQUIRE(read.state.step == step);
      for (std::size_t i = 0; i < splits.size(); ++i) {
        const auto found = expected.find(splits[i]);
        REQUIRE(read.state.positions[i] == (found == expected.end() ? Position{} : found->second));
      }
    }
    if (turn % 500 > 0) continue;
    const ProgressState all = progress.Export();
    REQUIRE(all.splits.size() == expected.size());
    std::size_t i = 0;
    for (const auto& [split, position] : expected) {
      REQUIRE(all.splits[i] == split);
      REQUIRE(all.positions[i++] == position);
    }
    REQUIRE(progress.Import(all.step, all.splits, all.positions, {}) == "");
  }
}

TEST_CASE("a step adds to arrays of the model's state of every type, and integers wrap around") {
  for (const PartType type : kStateTypes) {
    CAPTURE(static_cast<int>(type));
    REQUIRE(IsStateType(type));
    Progress progress;
    StateArray array{type, {2}, std::vector<char>(2 * SizeOf(type))};
    std::vector<char> most(SizeOf(type), static_cast<char>(0xff)), one(SizeOf(type), 0), doubled = one;
    if (type == PartType::kFloat32 || type == PartType::kFloat64) {
      const float half = 0.5f, sum = 1.0f;
      const double wide_half = 0.5, wide_sum = 1.0;
      const bool wide = type == PartType::kFloat64;
      std::memcpy(one.data(), wide ? static_cast<const void*>(&wide_half) : &half, one.size());
      std::memcpy(doubled.data(), wide ? static_cast<const void*>(&wide_sum) : &sum, one.size());
      most = one;
    } else {
      one[0] = 1;
    }
    std::memcpy(array.bytes.data(), most.data(), most.size());
    std::memcpy(array.bytes.data() + one.size(), one.data(), one.size());
    REQUIRE(progress.Import(7, {}, {}, PartsOf({array})) == "");
    StateArray added = array;
    std::memcpy(added.bytes.data(), one.data(), one.size());
    std::memset(added.bytes.data() + one.size(), 0, one.size());
    CHECK(progress.Advance({}, {}, PartsOf({added})).step == 8);
    StateArray sum = array;
    std::memcpy(sum.bytes.data(), doubled.data(), doubled.size());  // of integers: 0, one above the most
    CHECK(progress.Read({}).state.arrays == std::vector<StateArray>{sum});
  }
  for (const PartType type : {PartType::kBool, PartType::kBfloat16, PartType::kFloat16, PartType{0}, PartType{99}}) {
    CHECK(!IsStateType(type));
  }
}

TEST_CASE("what does not fit is refused in a sentence, and nothing has changed") {
  Progress progress;
  const std::vector<StateArray> arrays{ArrayOf<float>(PartType::kFloat32, {2, 1}, {1, 2}),
                                       ArrayOf<std::int64_t>(PartType::kInt64, {}, {3})};
  const std::vector<std::int64_t> splits{4};
  const std::vector<Position> positions{{1, 2, 3}};
  REQUIRE(progress.Import(5, splits, positions, PartsOf(arrays)) == "");

  const auto advance = [&](std::vector<std::int64_t> at, std::vector<Position> to, std::vector<StateArray> added) {
    return progress.Advance(at, to, PartsOf(added)).wrong;
  };
  CHECK(advance({4, 5}, positions, arrays) == "there are 1 positions for 2 splits");
  CHECK(advance({-1}, positions, arrays) == "split -1 is not between 0 and 67108863");
  CHECK(advance({kMostSplits}, positions, arrays) == "split 67108864 is not between 0 and 67108863");
  CHECK(advance({9}, {{1, -2, 3}}, arrays) == "the position of split 9 has a negative epoch or count");
  CHECK(advance({9}, {{-1, 0, 0}}, arrays) == "the position of split 9 has a negative epoch or count");
  CHECK(advance({9}, positions, {}) == "something is added to 0 arrays of the model's state, where there are 2");
  CHECK(advance({9}, positions, {arrays[0], arrays[0]}) ==
        "array 1 of the model's state is of another type or shape than what is added to it");
  CHECK(advance({9}, positions, {ArrayOf<float>(PartType::kFloat32, {1, 2}, {1, 2}), arrays[1]}) ==
        "array 0 of the model's state is of another type or shape than what is added to it");
  CHECK(advance({9}, positions, {arrays[0], StateArray{PartType::kBool, {}, {0}}}) ==
        "array 1 of the model's state has a type that cannot be added to");
  CHECK(progress.Read(std::vector<std::int64_t>{0, kMostSplits}).wrong ==
        "split 67108864 is not between 0 and 67108863");

  const auto import = [&](std::int64_t step, std::vector<StateArray> to) {
    return progress.Import(step, splits, positions, PartsOf(to));
  };
  CHECK(import(-1, arrays) == "step -1 is out of its range");
  CHECK(import(kMostSteps + 1, arrays) == "step 4611686018427387905 is out of its range");
  const std::string bytes = "array 0 of the model's state has other bytes than its shape says";
  for (const std::vector<std::int64_t>& dims : std::vector<std::vector<std::int64_t>>{
           {3}, {-1, 0}, {-2, -1}, {INT64_MAX, INT64_MAX}, {std::int64_t{1} << 62, 4}}) {
    CHECK(import(5, {{PartType::kFloat32, dims, std::vector<char>(8)}}) == bytes);
    CHECK(import(5, {{PartType::kFloat32, dims, {}}}) == bytes);
  }
  CHECK(import(5, {{PartType::kFloat32, std::vector<std::int64_t>(9, 1), std::vector<char>(4)}}) ==
        "array 0 of the model's state has too many dimensions");
  CHECK(progress.Import(5, {}, positions, {}) == "there are 1 positions for 0 splits");

  const ProgressState after = progress.Export();
  CHECK(after.step == 5);
  CHECK(after.splits == splits);
  CHECK(after.positions == positions);
  CHECK(after.arrays == arrays);
  REQUIRE(import(kMostSteps, arrays) == "");
  CHECK(advance(splits, positions, arrays) == "there are too many steps");
}

TEST_CASE("an array without numbers is one") {
  Progress progress;
  const StateArray empty{PartType::kInt32, {0, 3}, {}};
  REQUIRE(progress.Import(0, {}, {}, PartsOf({empty})) == "");
  CHECK(progress.Advance({}, {}, PartsOf({empty})).wrong == "");
  CHECK(progress.Read({}).state.arrays == std::vector<StateArray>{empty});
}

TEST_CASE("one large number of a split costs little memory") {
  Progress progress;
  const std::vector<std::int64_t> splits{kMostSplits - 1};
  REQUIRE(progress.Advance(splits, std::vector<Position>{{0, 1, 2}}, {}).wrong == "");
  CHECK(progress.bytes() < 1 << 20);
  CHECK(progress.Export().splits == splits);
}

TEST_CASE("threads advance one after the other, and read whole steps") {
  constexpr int kSteps = 2000;
  Progress progress;
  const StateArray zero = ArrayOf<std::int64_t>(PartType::kInt64, {1}, {0});
  const StateArray one = ArrayOf<std::int64_t>(PartType::kInt64, {1}, {1});
  REQUIRE(progress.Import(0, {}, {}, PartsOf({zero})) == "");
  const auto advance = [&](std::int64_t split) {
    for (std::int64_t i = 1; i <= kSteps; ++i) {
      const std::vector<std::int64_t> splits{split, split + 5000};
      const std::vector<Position> positions{{0, i, i}, {0, i, i}};
      if (!progress.Advance(splits, positions, PartsOf({one})).wrong.empty()) return;
    }
  };
  std::thread first(advance, 1), second(advance, 2);
  bool whole = true;
  for (int i = 0; i < kSteps; ++i) {
    const ProgressState state = progress.Read(std::vector<std::int64_t>{1, 5001, 2, 5002}).state;
    std::int64_t sum = 0;
    std::memcpy(&sum, state.arrays[0].bytes.data(), sizeof(sum));
    const std::int64_t counts = state.positions[0].count + state.positions[2].count;
    whole = whole && sum == state.step && counts == sum && state.positions[0] == state.positions[1] &&
            state.positions[2] == state.positions[3];
  }
  first.join();
  second.join();
  CHECK(whole);
  CHECK(progress.Export().step == 2 * kSteps);
}

}  // namespace
}  // namespace afo
