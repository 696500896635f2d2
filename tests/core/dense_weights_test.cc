#include "afo/core/dense_weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "afo/core/kernels.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::Random;

constexpr Rule kDense[] = {Rule::kSgd,  Rule::kAdagrad, Rule::kAdam,   Rule::kFtrl,
                           Rule::kAdamW, Rule::kMomentum, Rule::kRmsprop};
constexpr std::int64_t kSizes[] = {0, 1, 4095, 4096, 4097, 10000};

OptimizerOptions OptionsOf(Rule rule) {
  OptimizerOptions options;
  options.rule = rule;
  options.epsilon = 1e-3f;
  options.l1 = 0.01f;
  options.weight_decay = 0.02f;
  return options;
}

// Everything in one.
struct State {
  std::vector<float> weights, slots;
  std::uint64_t powers = 0;

  bool operator==(const State&) const = default;
};

State StateOf(const DenseWeights& dense) {
  const auto size = static_cast<std::size_t>(dense.size());
  State state{std::vector<float>(size), std::vector<float>(size * dense.slots())};
  state.powers = dense.Export(state.weights.data(), state.slots.data(), Serial);
  return state;
}

// Each element is of a row of its own, for no kernel takes a row as long as a vector: the chunks must not show.
class RowPerWeight {
 public:
  RowPerWeight(const OptimizerOptions& options, const std::vector<float>& weights)
      : options_(options), stride_(1 + static_cast<std::size_t>(SlotsOf(options.rule))) {
    for (const float weight : weights) {
      rows_.push_back(weight);
      rows_.resize(rows_.size() + stride_ - 1);
      float* row = &rows_[rows_.size() - stride_];
      FillSlots(options_, row, row + 1, 1);
    }
  }

  void Apply(const std::vector<float>& gradient, float schedule) {
    const Update update = UpdateOf(options_, schedule, ++state_.powers);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      void* row = &rows_[i * stride_];
      const float* of = &gradient[i];
      const RowBatch batch{&row, &of, nullptr, 1, 1, sizeof(float)};
      ActiveKernels().of(WeightType::kFloat32, options_.rule)(options_, update, batch);
    }
  }

  State Get() const {
    State state{{}, {}, state_.powers};
    const std::size_t size = rows_.size() / stride_;
    for (std::size_t i = 0; i < size; ++i) state.weights.push_back(rows_[i * stride_]);
    for (std::size_t slot = 1; slot < stride_; ++slot) {
      for (std::size_t i = 0; i < size; ++i) state.slots.push_back(rows_[i * stride_ + slot]);
    }
    return state;
  }

 private:
  OptimizerOptions options_;
  std::size_t stride_;
  std::vector<float> rows_;
  State state_;
};

// A thread a chunk.
void EachAlone(std::int64_t units, std::int64_t, const Body& body) {
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < units; ++i) threads.emplace_back([&body, i] { body(i, i + 1); });
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("dense weights are updated as one row of any length, for every rule that they have") {
  Random random(1);
  for (const Rule rule : kDense) {
    const OptimizerOptions options = OptionsOf(rule);
    REQUIRE(IsDenseRule(options));
    for (const std::int64_t size : kSizes) {
      CAPTURE(static_cast<int>(rule));
      CAPTURE(size);
      const auto count = static_cast<std::size_t>(size);
      const std::unique_ptr<DenseWeights> dense = DenseWeights::Create(options, size);
      REQUIRE(StateOf(*dense) == RowPerWeight(options, std::vector<float>(count)).Get());
      const std::vector<float> first = random.Floats(count);
      dense->Reset(first.data(), EachAlone);
      RowPerWeight expected(options, first);
      REQUIRE(StateOf(*dense) == expected.Get());
      for (const float schedule : {1.0f, 0.3f, 0.0f}) {
        const std::vector<float> gradient = random.Floats(count, 3);
        dense->Apply(gradient.data(), schedule, EachAlone);
        expected.Apply(gradient, schedule);
      }
      REQUIRE(StateOf(*dense) == expected.Get());
      std::vector<float> read(count);
      dense->Read(read.data(), EachAlone);
      REQUIRE(read == expected.Get().weights);
    }
  }
}

TEST_CASE("dense weights do not have the rules that look at a row or its age") {
  for (int rule = 0; rule < kRules; ++rule) {
    const bool is_dense = std::find(std::begin(kDense), std::end(kDense), static_cast<Rule>(rule)) != std::end(kDense);
    CHECK(IsDenseRule(OptionsOf(static_cast<Rule>(rule))) == is_dense);
  }
  OptimizerOptions clipped = OptionsOf(Rule::kAdam);
  clipped.clip_value = 1;
  CHECK(IsDenseRule(clipped));
  clipped.clip_norm = 1;
  CHECK(!IsDenseRule(clipped));
}

TEST_CASE("dense weights that were exported go on alike elsewhere") {
  Random random(2);
  for (const Rule rule : kDense) {
    CAPTURE(static_cast<int>(rule));
    const std::unique_ptr<DenseWeights> here = DenseWeights::Create(OptionsOf(rule), 4097);
    const std::unique_ptr<DenseWeights> there = DenseWeights::Create(OptionsOf(rule), 4097);
    here->Reset(random.Floats(4097).data(), Serial);
    for (int i = 0; i < 3; ++i) here->Apply(random.Floats(4097).data(), 1, Serial);
    const State state = StateOf(*here);
    CHECK(state.powers == 3);
    there->Import(state.weights.data(), state.slots.data(), state.powers, EachAlone);
    REQUIRE(StateOf(*there) == state);
    const std::vector<float> gradient = random.Floats(4097);
    here->Apply(gradient.data(), 0.5f, Serial);
    there->Apply(gradient.data(), 0.5f, Serial);
    REQUIRE(StateOf(*there) == StateOf(*here));
  }
}

TEST_CASE("dense weights are moved without their slots") {
  Random random(3);
  const std::unique_ptr<DenseWeights> dense = DenseWeights::Create(OptionsOf(Rule::kFtrl), 10000);
  const std::vector<float> first = random.Floats(10000), change = random.Floats(10000);
  dense->Reset(first.data(), Serial);
  State expected = StateOf(*dense);
  for (std::size_t i = 0; i < change.size(); ++i) expected.weights[i] += change[i];
  dense->Move(change.data(), EachAlone);
  CHECK(StateOf(*dense) == expected);
}

TEST_CASE("threads that update and read dense weights lose nothing, and see no chunk half written") {
  constexpr std::int64_t kSize = 2 * kChunkWeights + 5;
  constexpr int kUpdates = 200;
  OptimizerOptions options = OptionsOf(Rule::kSgd);
  options.learning_rate = 1;
  const std::unique_ptr<DenseWeights> dense = DenseWeights::Create(options, kSize);
  const std::vector<float> gradient(kSize, -1);
  const auto update = [&] {
    for (int i = 0; i < kUpdates; ++i) dense->Apply(gradient.data(), 1, Serial);
  };
  std::thread one(update), other(update);
  std::vector<float> read(kSize);
  bool whole = true;
  for (int i = 0; i < kUpdates; ++i) {
    dense->Read(read.data(), Serial);
    for (std::int64_t at = 0; at < kSize; ++at) whole = whole && read[at] == read[at / kChunkWeights * kChunkWeights];
  }
  one.join();
  other.join();
  CHECK(whole);
  const State state = StateOf(*dense);
  CHECK(state.weights == std::vector<float>(kSize, 2 * kUpdates));
  CHECK(state.powers == 2 * kUpdates);
}

TEST_CASE("dense weights say their bytes") {
  const std::unique_ptr<DenseWeights> dense = DenseWeights::Create(OptionsOf(Rule::kAdam), 10000);
  CHECK(dense->bytes() >= 10000 * 3 * sizeof(float));
  CHECK(dense->bytes() < 10000 * 3 * sizeof(float) + (1 << 14));
}

}  // namespace
}  // namespace afo
