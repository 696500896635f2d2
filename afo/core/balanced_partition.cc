#include "afo/core/balanced_partition.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace afo {

std::optional<std::vector<int>> BalancedPartition(const std::vector<std::int64_t>& pieces, int parts) {
  assert(parts >= 1);
  std::vector<std::int64_t> loads(static_cast<std::size_t>(parts));
  std::vector<int> order(pieces.size()), owners(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int left, int right) { return pieces[left] > pieces[right]; });
  for (const int piece : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += pieces[piece];
    owners[piece] = static_cast<int>(least - loads.begin());
  }
  const std::int64_t all = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
  const std::int64_t most = *std::max_element(loads.begin(), loads.end());
  if (most * parts > all + all / 4) return std::nullopt;
  return owners;
}

}  // namespace afo
