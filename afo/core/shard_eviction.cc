// Which keys of a shard lose their row: those that are named, and those that a policy finds.

#include <algorithm>
#include <mutex>
#include <utility>

#include "afo/core/shard.h"

namespace afo {
namespace {

double SquaresOf(const float* weights, std::int32_t dim) {
  double sum = 0;
  for (std::int32_t i = 0; i < dim; ++i) sum += static_cast<double>(weights[i]) * weights[i];
  return sum;
}

// Longest unused first, and of those the least seen.
std::uint64_t WorthOf(const RowHeader& header) {
  return std::uint64_t{header.step} << 24 | header.frequency();
}

}  // namespace

void Shard::RemoveRow(std::uint32_t row) {
  const std::int64_t key = rows_.header(row)->key;
  index_.Remove(HashOf(key), row);
  rows_.Free(row);
  // Nobody asks for removals before the first epoch began: there is no checkpoint that a delta could stand on.
  const std::uint64_t epoch = spec_.epoch.load(std::memory_order_relaxed);
  if (epoch > 0) removed_.push_back({key, epoch});
}

bool Shard::Remove(std::int64_t key) {
  std::unique_lock writing(mutex_);
  const std::uint32_t row = RowOf(key);
  if (row == kNoRow) return false;
  RemoveRow(row);
  return true;
}

std::int64_t Shard::EvictUnfit(std::uint32_t oldest, float least) {
  std::int64_t evicted = 0;
  std::vector<float> weights(static_cast<std::size_t>(spec_.layout.dim));
  std::unique_lock writing(mutex_);
  for (std::uint32_t row = 0; row < rows_.end(); ++row) {
    const RowHeader& header = *rows_.header(row);
    if (header.is_free()) continue;
    if (least > 0) rows_.Read(row, weights.data());
    const bool light = least > 0 && SquaresOf(weights.data(), spec_.layout.dim) < least;
    if (header.step >= oldest && !light) continue;
    RemoveRow(row);
    ++evicted;
  }
  candidates_.DropBefore(oldest);
  return evicted;
}

std::int64_t Shard::EvictSurplus(std::size_t capacity) {
  std::unique_lock writing(mutex_);
  if (index_.size() <= capacity) return 0;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> rows;
  rows.reserve(index_.size());
  for (std::uint32_t row = 0; row < rows_.end(); ++row) {
    const RowHeader& header = *rows_.header(row);
    if (!header.is_free()) rows.emplace_back(WorthOf(header), row);
  }
  const std::size_t surplus = rows.size() - capacity;
  std::nth_element(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(surplus), rows.end());
  for (std::size_t i = 0; i < surplus; ++i) RemoveRow(rows[i].second);
  return static_cast<std::int64_t>(surplus);
}

void Shard::Clear() {
  std::unique_lock writing(mutex_);
  index_ = Index();
  rows_ = RowStore(spec_.layout);
  candidates_ = Candidates();
  bloom_ = CountingBloom(spec_.options.admission, spec_.options.shard_bits);
  removed_.clear();
}

}  // namespace afo
