// First values of a row: a function of the seed and the key alone, so they are the same on any number of servers, in any
// order, and after a removal.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace afo {

enum class Distribution : std::int32_t { kConstant, kUniform, kNormal, kTruncatedNormal };

// A field that a distribution does not name is not read.
struct InitializerOptions {
  Distribution distribution = Distribution::kConstant;
  double value = 0.0;   // constant
  double minval = 0.0;  // uniform: lowest, highest
  double maxval = 0.0;
  double mean = 0.0;  // normal, and the one that is cut off at two deviations
  double stddev = 0.0;
  std::uint64_t seed = 0;

  bool operator==(const InitializerOptions&) const = default;

  // Sets the option of this name, that of the field; false if there is none.
  [[nodiscard]] bool Set(std::string_view name, double to);
};

// The distribution of this name: constant, uniform, normal or truncated_normal.
std::optional<Distribution> DistributionOf(std::string_view name);

// Draws by the inverse of the distribution function, read off a table between whose points it is taken as straight. A
// normal value therefore stays below 3.7 deviations.
class Initializer {
 public:
  explicit Initializer(const InitializerOptions& options);

  void Fill(std::int64_t key, float* weights, std::int32_t count) const;

 private:
  std::uint64_t seed_;
  bool is_constant_;
  float constant_;
  std::vector<float> quantiles_;
};

}  // namespace afo
