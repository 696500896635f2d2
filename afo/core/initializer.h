// First values of a row: a function of the seed and the key alone, so they are the same on any number of servers, in any
// order, and after a removal.
#pragma once

#include <cstdint>
#include <vector>

namespace afo {

enum class Distribution : std::int32_t { kConstant = 0, kUniform = 1, kNormal = 2, kTruncatedNormal = 3 };

struct InitializerOptions {
  Distribution distribution = Distribution::kConstant;
  // constant: value, -; uniform: lowest, highest; normal and truncated (at two deviations): mean, standard deviation.
  double first = 0.0;
  double second = 0.0;
  std::uint64_t seed = 0;

  bool operator==(const InitializerOptions&) const = default;
};

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
