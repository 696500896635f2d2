#include "afo/core/bfloat16.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "afo/core/hash.h"
#include "afo/core/kernels.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::Random;

constexpr float kLargest = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t BitsOf(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TEST_CASE("rounded by chance a number becomes one of its neighbours, as often as it is near to it") {
  for (const float value : {1.0f / 3, -1.0f / 3, 1.0f, -2.5e-39f, 3e38f, 1.0e-3f, 0.0f, -0.0f}) {
    CAPTURE(value);
    const std::uint32_t bits = BitsOf(value);
    std::uint32_t raised = 0, wrong = 0;
    for (std::uint32_t random = 0; random < 0x10000; ++random) {
      const std::uint32_t got = RandomlyRoundedBfloat16(value, random);
      raised += got == (bits >> 16) + 1;
      wrong += got != bits >> 16 && got != (bits >> 16) + 1;
    }
    CHECK(wrong == 0);
    CHECK(raised == (bits & 0xffffu));  // of 65,536: none where the number is one of bfloat16
  }
}

TEST_CASE("rounding by chance makes no infinity and no number of what was none") {
  for (const std::uint32_t random : {0u, 1u, 0x8000u, 0xffffu}) {
    CHECK(WidenedBfloat16(RandomlyRoundedBfloat16(kInfinity, random)) == kInfinity);
    CHECK(WidenedBfloat16(RandomlyRoundedBfloat16(-kInfinity, random)) == -kInfinity);
    CHECK(RandomlyRoundedBfloat16(kLargest, random) == 0x7f7f);
    CHECK(RandomlyRoundedBfloat16(-kLargest, random) == 0xff7f);
    for (const std::uint32_t none : {0x7f800001u, 0xffffffffu, 0x7fc00000u}) {
      float value;
      std::memcpy(&value, &none, sizeof(value));
      CHECK(std::isnan(WidenedBfloat16(RandomlyRoundedBfloat16(value, random))));
      CHECK(std::isnan(WidenedBfloat16(NearestBfloat16(value))));
    }
  }
}

// A row of bfloat16, with as many slots as its rule has, exactly as long as that.
struct Row {
  std::vector<std::uint16_t> weights;
  std::vector<float> slots;

  Row(const OptimizerOptions& options, const std::vector<float>& from)
      : slots(from.size() * static_cast<std::size_t>(SlotsOf(options.rule))) {
    for (const float weight : from) weights.push_back(NearestBfloat16(weight));
    FillSlots(options, Wide().data(), slots.data(), static_cast<std::int32_t>(from.size()));
  }

  std::vector<float> Wide() const {
    std::vector<float> wide;
    for (const std::uint16_t weight : weights) wide.push_back(WidenedBfloat16(weight));
    return wide;
  }

  void Step(const Kernels& kernels, const OptimizerOptions& options, const std::vector<float>& gradient,
            std::uint64_t draw) {
    const auto dim = static_cast<std::int32_t>(gradient.size());
    const std::size_t slots_at = (weights.size() * 2 + 3) / 4 * 4;
    std::vector<float> memory((slots_at + slots.size() * 4) / 4);
    auto* bytes = reinterpret_cast<char*>(memory.data());
    std::memcpy(bytes, weights.data(), weights.size() * 2);
    if (!slots.empty()) std::memcpy(bytes + slots_at, slots.data(), slots.size() * 4);
    void* row = bytes;
    const float* source = gradient.data();
    const RowBatch batch{.rows = &row,
                         .gradients = &source,
                         .count = 1,
                         .dim = dim,
                         .slots_at = static_cast<std::int32_t>(slots_at),
                         .draws = &draw};
    kernels.of(WeightType::kBfloat16, options.rule)(options, UpdateOf(options, 1, 1), batch);
    std::memcpy(weights.data(), bytes, weights.size() * 2);
    if (!slots.empty()) std::memcpy(slots.data(), bytes + slots_at, slots.size() * 4);
  }
};

TEST_CASE("bfloat16, for every rule: slots as of float32, weights beside those, the same on all instruction sets") {
  for (int rule = 0; rule < kRules; ++rule) {
    OptimizerOptions options;
    options.rule = static_cast<Rule>(rule);
    options.l1 = 0.1f;
    options.clip_norm = rule % 2 == 0 ? 0.5f : 0.0f;
    for (const std::int32_t dim : {1, 3, 8, 16, 17, 32, 64, 100}) {
      CAPTURE(rule);
      CAPTURE(dim);
      Random random(static_cast<std::uint64_t>(dim));
      Row row(options, random.Floats(static_cast<std::size_t>(dim)));
      const std::vector<float> gradient = random.Floats(static_cast<std::size_t>(dim));
      std::vector<float> exact = row.Wide();
      exact.insert(exact.end(), row.slots.begin(), row.slots.end());
      void* target = exact.data();
      const float* source = gradient.data();
      ActiveKernels().of(WeightType::kFloat32, options.rule)(
          options, UpdateOf(options, 1, 1), {&target, &source, nullptr, 1, dim, dim * static_cast<int>(sizeof(float))});
      Row narrow = row;
      row.Step(ActiveKernels(), options, gradient, 0x123456789abcdef0ull);
      narrow.Step(*KernelsNamed("v3"), options, gradient, 0x123456789abcdef0ull);
      CHECK(row.weights == narrow.weights);
      CHECK(row.slots == narrow.slots);
      CHECK(row.slots == std::vector<float>(exact.begin() + dim, exact.end()));
      int wrong = 0;
      for (std::size_t i = 0; i < row.weights.size(); ++i) {
        const std::uint32_t below = BitsOf(exact[i]) >> 16;
        wrong += row.weights[i] != below && (row.weights[i] != below + 1 || BitsOf(exact[i]) << 16 == 0);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("updates that are far below a bfloat16's precision add up, in every element") {
  constexpr std::size_t kDim = 16;
  constexpr int kKeys = 200, kUpdates = 100;
  OptimizerOptions options;
  options.rule = Rule::kSgd;
  options.learning_rate = 1;
  const std::vector<float> gradient(kDim, -1.0f / 4096);  // 1/32 of what is between 1 and the next
  std::vector<double> sums(kDim, 0.0);
  for (std::int64_t key = 0; key < kKeys; ++key) {
    Row row(options, std::vector<float>(kDim, 1.0f));
    for (std::uint64_t update = 0; update < kUpdates; ++update) {
      row.Step(ActiveKernels(), options, gradient, Mix(static_cast<std::uint64_t>(key) + Mix(update)));
    }
    for (std::size_t i = 0; i < kDim; ++i) sums[i] += row.Wide()[i] - 1;
  }
  // Of each update: 1/128 by a chance of 1/32. Five deviations of the mean of one element, and of all.
  const double wanted = kUpdates / 4096.0, deviation = std::sqrt(kUpdates / 32.0 * 31 / 32) / 128;
  double all = 0;
  for (const double sum : sums) {
    CHECK(std::abs(sum / kKeys - wanted) < 5 * deviation / std::sqrt(kKeys));
    all += sum / kKeys / kDim;
  }
  CHECK(std::abs(all - wanted) < 5 * deviation / std::sqrt(kKeys * kDim));
}

TEST_CASE("weights of bfloat16 that a rule leaves alone stay, and those that FTRL sets to zero are zero") {
  OptimizerOptions options;
  options.rule = Rule::kAdagrad;
  Row row(options, Random(3).Floats(64));
  const std::vector<std::uint16_t> before = row.weights;
  for (std::uint64_t draw = 0; draw < 20; ++draw) row.Step(ActiveKernels(), options, std::vector<float>(64), Mix(draw));
  CHECK(row.weights == before);
  options.rule = Rule::kFtrl;
  options.l1 = 1e6f;
  Row none(options, Random(3).Floats(64));
  none.Step(ActiveKernels(), options, Random(4).Floats(64), 77);
  CHECK(none.weights == std::vector<std::uint16_t>(64, 0));
}

}  // namespace
}  // namespace afo
