#include "afo/psplus/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace afo::psplus {

std::uint64_t Quantile(const Buckets& buckets, double part) {
  const std::uint64_t all = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
  if (all == 0) return 0;
  const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(all))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets[i];
    if (seen >= wanted) return std::uint64_t{1} << i;
  }
  return std::uint64_t{1} << (kBuckets - 1);
}

void Histogram::Add(std::chrono::nanoseconds time) {
  const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.count())) / 1000;
  buckets_[std::min<std::size_t>(std::bit_width(us), kBuckets - 1)].Add();
}

Buckets Histogram::values() const {
  Buckets values;
  std::transform(buckets_.begin(), buckets_.end(), values.begin(), [](const Counter& each) { return each.value(); });
  return values;
}

}  // namespace afo::psplus
