#include "afo/core/initializer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "afo/core/hash.h"
#include "tests/core/support.h"

namespace afo {
namespace {

struct Case {
  std::string name;
  InitializerOptions options;
  double mean, deviation, kurtosis;  // as they must be
  double lowest, highest;            // beyond which nothing is
};

constexpr Distribution kUniform = Distribution::kUniform;
constexpr Distribution kNormal = Distribution::kNormal;
constexpr Distribution kTruncated = Distribution::kTruncatedNormal;

InitializerOptions Uniform(double minval, double maxval, std::uint64_t seed) {
  return {.distribution = kUniform, .minval = minval, .maxval = maxval, .seed = seed};
}

InitializerOptions Normal(Distribution distribution, double mean, double stddev, std::uint64_t seed) {
  return {.distribution = distribution, .mean = mean, .stddev = stddev, .seed = seed};
}

// Kurtosis is the fourth moment by the square of the second. A normal one that ends at two deviations has 0.8796 of the
// deviation and 2.366; one read off a table that ends at 3.67 a little less than 3.
std::vector<Case> Cases() {
  return {
      {"uniform", Uniform(-0.05, 0.05, 1), 0, 0.1 / std::sqrt(12.0), 1.8, -0.05, 0.05},
      {"uniform, not around zero", Uniform(3, 7, 2), 5, 4 / std::sqrt(12.0), 1.8, 3, 7},
      {"normal", Normal(kNormal, 0, 0.01, 3), 0, 0.01, 2.98, -0.037, 0.037},
      {"normal, not around zero", Normal(kNormal, -2, 0.5, 4), -2, 0.5, 2.98, -2 - 1.85, -2 + 1.85},
      {"truncated", Normal(kTruncated, 0, 0.01, 5), 0, 0.008796, 2.366, -0.02, 0.02},
      {"truncated, not around zero", Normal(kTruncated, 1, 2, 6), 1, 2 * 0.8796, 2.366, -3, 5},
  };
}

std::vector<float> Values(const Initializer& initializer, std::int64_t key, std::int32_t count) {
  std::vector<float> values(static_cast<std::size_t>(count), NAN);
  initializer.Fill(key, values.data(), count);
  return values;
}

TEST_CASE("first values have the moments of their distribution, and stay in its bounds") {
  constexpr std::int32_t kDim = 8;
  constexpr std::int64_t kKeys = 12500;
  for (const Case& each : Cases()) {
    CAPTURE(each.name);
    const Initializer initializer(each.options);
    double sum = 0, second = 0, third = 0, fourth = 0;
    double lowest = 1e9, highest = -1e9;
    for (std::int64_t key = 0; key < kKeys; ++key) {
      for (const float value : Values(initializer, key - kKeys / 2, kDim)) {
        const double off = (value - each.mean) / each.deviation;
        sum += off;
        second += off * off;
        third += off * off * off;
        fourth += off * off * off * off;
        lowest = std::min<double>(lowest, value);
        highest = std::max<double>(highest, value);
      }
    }
    const double n = static_cast<double>(kKeys) * kDim;
    // Five deviations of what chance does with 100000 values.
    CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
    CHECK(std::abs(second / n - 1) < 5 * std::sqrt(2 / n));
    CHECK(std::abs(third / n) < 5 * std::sqrt(15 / n));
    CHECK(std::abs(fourth / n / (second / n) / (second / n) - each.kurtosis) < 0.08);
    const double rounding = 1e-6 * std::max(std::abs(each.lowest), std::abs(each.highest));
    CHECK(lowest >= each.lowest - rounding);
    CHECK(highest <= each.highest + rounding);
    // And come near them.
    CHECK(lowest < each.lowest + 0.1 * (each.highest - each.lowest));
    CHECK(highest > each.highest - 0.1 * (each.highest - each.lowest));
  }
}

// The share of a distribution below x.
double Below(const InitializerOptions& options, double x) {
  const auto normal = [](double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); };
  if (options.distribution == kUniform) return (x - options.minval) / (options.maxval - options.minval);
  const double share = normal((x - options.mean) / options.stddev);
  return options.distribution == kNormal ? share : (share - normal(-2)) / (1 - 2 * normal(-2));
}

TEST_CASE("each value is the quantile of 32 bits that the seed and the key decide") {
  for (const Case& each : Cases()) {
    CAPTURE(each.name);
    const Initializer initializer(each.options);
    int wrong = 0;
    for (std::int64_t key : testing::Random(7).Keys(300)) {
      const std::vector<float> values = Values(initializer, key, 9);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint64_t step = 0x9e3779b97f4a7c15ull * (i / 2 + 1);
        const std::uint64_t bits = Mix((HashOf(key) ^ Mix(each.options.seed)) + step);
        const double share = static_cast<double>(i % 2 == 0 ? bits & 0xffffffff : bits >> 32) / 4294967296.0;
        // Between two points of the table the function is taken as straight, which says most at its ends.
        const bool outermost = share < 1.0 / 4096 || share > 4095.0 / 4096;
        wrong += std::abs(Below(each.options, values[i]) - share) > (outermost ? 2e-4 : 2e-5);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("golden values: a table's first values stay what they were") {
  const Initializer uniform({.distribution = kUniform, .minval = -0.5, .maxval = 1.5, .seed = 1000003});
  const Initializer normal({.distribution = kNormal, .mean = 0.25, .stddev = 2, .seed = 2000006});
  const Initializer truncated({.distribution = kTruncated, .mean = 0.25, .stddev = 2, .seed = 3000009});
  const std::vector<std::vector<float>> wanted = {
      {-0.118996151f, -0.147888467f, 0.807895601f, -0.159580633f, 0.941022038f},
      {-0.170702621f, 1.37657034f, 1.4488945f, 0.692760885f, 1.14503157f},
      {-3.13291192f, -1.694839f, -1.36249924f, 0.985602319f, 0.123447403f},
      {0.555671453f, -1.07683396f, -1.54178333f, 1.7081691f, 2.94319439f},
      {2.35606599f, -3.38740849f, 0.0509675331f, -1.04867768f, -1.39538956f},
      {2.05760503f, 1.41401064f, 2.10842752f, -2.44072461f, -1.50002658f},
  };
  std::size_t at = 0;
  for (const Initializer* initializer : {&uniform, &normal, &truncated}) {
    for (const std::int64_t key : {0, -1}) {
      const std::vector<float> values = Values(*initializer, key, 5);
      // Another library's `erfc` may differ in the last bit.
      for (std::size_t i = 0; i < 5; ++i) CHECK(values[i] == doctest::Approx(wanted[at][i]).epsilon(1e-6));
      ++at;
    }
  }
}

TEST_CASE("values depend on the seed and the key, and on nothing else") {
  for (const Case& each : Cases()) {
    CAPTURE(each.name);
    const Initializer one(each.options), same(each.options);
    InitializerOptions options = each.options;
    options.seed += 1;
    const Initializer other(options);
    const std::vector<float> first = Values(one, 77, 16);
    for (std::int64_t key = 0; key < 50; ++key) Values(one, key, 16);  // draws of other keys
    CHECK(Values(one, 77, 16) == first);
    CHECK(Values(same, 77, 16) == first);
    CHECK(Values(other, 77, 16) != first);
    CHECK(Values(one, 78, 16) != first);
  }
}

TEST_CASE("a narrower row has the first values of a wider one, and nothing is written behind it") {
  for (const Case& each : Cases()) {
    CAPTURE(each.name);
    const Initializer initializer(each.options);
    const std::vector<float> all = Values(initializer, -5, 64);
    for (std::int32_t count = 0; count <= 64; ++count) {
      std::vector<float> values(64, 12345);
      initializer.Fill(-5, values.data(), count);
      for (std::int32_t i = 0; i < 64; ++i) REQUIRE(values[i] == (i < count ? all[i] : 12345));
    }
  }
}

double Correlation(const std::vector<float>& a, const std::vector<float>& b) {
  double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
  const double n = static_cast<double>(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ma += a[i] / n;
    mb += b[i] / n;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - ma) * (a[i] - ma);
    bb += (b[i] - mb) * (b[i] - mb);
    ab += (a[i] - ma) * (b[i] - mb);
  }
  return ab / std::sqrt(aa * bb);
}

TEST_CASE("neighbours have nothing to do with each other: keys, elements, seeds") {
  constexpr std::int64_t kKeys = 20000;
  InitializerOptions options{.distribution = kNormal, .mean = 0, .stddev = 1, .seed = 11};
  const Initializer initializer(options);
  options.seed = 12;
  const Initializer next_seed(options);
  std::vector<std::vector<float>> elements(4), others(4);
  for (std::int64_t key = 0; key < kKeys; ++key) {
    const std::vector<float> values = Values(initializer, key, 4), of_seed = Values(next_seed, key, 4);
    for (std::size_t i = 0; i < 4; ++i) {
      elements[i].push_back(values[i]);
      others[i].push_back(of_seed[i]);
    }
  }
  const double most = 5 / std::sqrt(static_cast<double>(kKeys));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(Correlation(elements[i], others[i])) < most);
    for (std::size_t j = i + 1; j < 4; ++j) CHECK(std::abs(Correlation(elements[i], elements[j])) < most);
    for (const int lag : {1, 2, 3, 16, 1024}) {
      const std::vector<float> before(elements[i].begin(), elements[i].end() - lag);
      const std::vector<float> after(elements[i].begin() + lag, elements[i].end());
      CHECK(std::abs(Correlation(before, after)) < most * 1.1);
    }
  }
}

TEST_CASE("a constant is what it is, and is drawn for no distribution of no width") {
  const Initializer constant({.distribution = Distribution::kConstant, .value = 0.1, .seed = 5});
  CHECK(Values(constant, 3, 7) == std::vector<float>(7, 0.1f));
  for (const Distribution each : {kUniform, kNormal, kTruncated}) {
    const InitializerOptions options{.distribution = each, .minval = 2.5, .maxval = 2.5, .mean = 2.5, .seed = 1};
    CHECK(Values(Initializer(options), 3, 7) == std::vector<float>(7, 2.5f));
  }
}

TEST_CASE("options are equal where each of them is, and are set by their names") {
  const InitializerOptions options{.distribution = kNormal, .mean = 1, .stddev = 2, .seed = 3};
  InitializerOptions other;
  other.distribution = kNormal;
  other.seed = 3;
  CHECK_FALSE(options == other);
  CHECK(other.Set("mean", 1));
  CHECK(other.Set("stddev", 2));
  CHECK(options == other);
  for (const char* name : {"value", "minval", "maxval", "mean", "stddev"}) {
    InitializerOptions changed = options;
    CHECK(changed.Set(name, 7));
    CHECK_FALSE(options == changed);
  }
  other.seed = 0;
  CHECK_FALSE(options == other);
  other = options;
  other.distribution = kUniform;
  CHECK_FALSE(options == other);
  CHECK_FALSE(other.Set("first", 1));
  CHECK(DistributionOf("constant") == Distribution::kConstant);
  CHECK(DistributionOf("uniform") == kUniform);
  CHECK(DistributionOf("normal") == kNormal);
  CHECK(DistributionOf("truncated_normal") == kTruncated);
  CHECK_FALSE(DistributionOf("gamma").has_value());
}

}  // namespace
}  // namespace afo
