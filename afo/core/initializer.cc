#include "afo/core/initializer.h"

#include <algorithm>
#include <cmath>

#include "afo/core/hash.h"

namespace afo {
namespace {

constexpr int kPointBits = 12;
constexpr int kPoints = 1 << kPointBits;

double NormalBelow(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// The value below which a normal one lies with this probability, by bisection: once a table, and without tables of
// coefficients. 80 halvings of 16 leave less than the last bit of a float.
double NormalQuantile(double probability) {
  double low = -8.0, high = 8.0;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (NormalBelow(middle) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Points of the standard distribution; made once a process, for a table of them costs milliseconds.
std::vector<double> MadePoints(Distribution distribution) {
  std::vector<double> points(kPoints + 1);
  const double cut = distribution == Distribution::kTruncatedNormal ? NormalBelow(-2.0) : 0.0;
  // The ends of the normal one would be infinite; half a point inside of them is what the outermost interval means.
  const double edge = distribution == Distribution::kNormal ? 0.5 / kPoints : 0.0;
  for (int i = 0; i <= kPoints; ++i) {
    const double part = std::min(std::max(static_cast<double>(i) / kPoints, edge), 1 - edge);
    points[i] = distribution == Distribution::kUniform ? part : NormalQuantile(cut + part * (1 - 2 * cut));
  }
  return points;
}

const std::vector<double>& Points(Distribution distribution) {
  static const std::vector<double> uniform = MadePoints(Distribution::kUniform);
  static const std::vector<double> normal = MadePoints(Distribution::kNormal);
  static const std::vector<double> truncated = MadePoints(Distribution::kTruncatedNormal);
  if (distribution == Distribution::kUniform) return uniform;
  return distribution == Distribution::kNormal ? normal : truncated;
}

}  // namespace

bool InitializerOptions::Set(std::string_view name, double to) {
  double* field = name == "value"    ? &value
                  : name == "minval" ? &minval
                  : name == "maxval" ? &maxval
                  : name == "mean"   ? &mean
                  : name == "stddev" ? &stddev
                                     : nullptr;
  if (field == nullptr) return false;
  *field = to;
  return true;
}

std::optional<Distribution> DistributionOf(std::string_view name) {
  if (name == "constant") return Distribution::kConstant;
  if (name == "uniform") return Distribution::kUniform;
  if (name == "normal") return Distribution::kNormal;
  if (name == "truncated_normal") return Distribution::kTruncatedNormal;
  return std::nullopt;
}

Initializer::Initializer(const InitializerOptions& options)
    : seed_(Mix(options.seed)),
      is_constant_(options.distribution == Distribution::kConstant),
      constant_(static_cast<float>(options.value)) {
  if (is_constant_) return;
  const bool is_uniform = options.distribution == Distribution::kUniform;
  const double offset = is_uniform ? options.minval : options.mean;
  const double scale = is_uniform ? options.maxval - options.minval : options.stddev;
  for (const double point : Points(options.distribution)) {
    quantiles_.push_back(static_cast<float>(offset + scale * point));
  }
}

void Initializer::Fill(std::int64_t key, float* weights, std::int32_t count) const {
  if (is_constant_) {
    std::fill_n(weights, count, constant_);
    return;
  }
  // SplitMix64 from a state of the key's own: two values of 32 bits a step.
  std::uint64_t state = HashOf(key) ^ seed_;
  const float* table = quantiles_.data();
  const auto draw = [table](std::uint32_t bits) {
    const std::uint32_t point = bits >> (32 - kPointBits);
    const float part = static_cast<float>(bits & ((1u << (32 - kPointBits)) - 1)) * (1.0f / (1u << (32 - kPointBits)));
    return table[point] + part * (table[point + 1] - table[point]);
  };
  for (std::int32_t i = 0; i < count; i += 2) {
    state += 0x9e3779b97f4a7c15ull;
    const std::uint64_t bits = Mix(state);
    weights[i] = draw(static_cast<std::uint32_t>(bits));
    if (i + 1 < count) weights[i + 1] = draw(static_cast<std::uint32_t>(bits >> 32));
  }
}

}  // namespace afo
