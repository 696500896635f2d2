#include "afo/core/counting_bloom.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "afo/core/hash.h"

namespace afo {
namespace {

// So many that their number in each cell is even: 1.6 % is one deviation.
constexpr double kKeysOfCell = 4096;
constexpr int kMaxGroupBits = 8;
constexpr std::uint64_t kSalt = 0x5851f42d4c957f2dull;

}  // namespace

BloomShape::BloomShape(const AdmissionOptions& options) {
  if (!options.blooms()) return;
  const auto keys = static_cast<double>(options.max_element_size);
  const double chance = std::log(static_cast<double>(options.false_positive_probability));
  const double groups = keys / (kKeysOfCell * (1 << kMaxShardBits));
  while (group_bits < kMaxGroupBits && (2 << group_bits) <= groups) ++group_bits;
  const double counters = keys * -chance / (std::log(2.0) * std::log(2.0));
  const double cells = std::ldexp(1 << kMaxShardBits, group_bits);
  cell_bytes = 4 * static_cast<std::uint32_t>(std::ceil(std::max(16.0, counters / cells / 4)));
  hashes = static_cast<int>(std::ceil(-chance / std::log(2.0)));
}

CountingBloom::CountingBloom(const AdmissionOptions& options, int shard_bits)
    : shape_(options), low_bits_(kMaxShardBits - shard_bits) {
  if (options.blooms()) cells_.resize(std::size_t{1} << (shape_.group_bits + low_bits_));
}

std::size_t CountingBloom::PlaceOf(std::uint64_t number) const {
  const std::uint64_t group = number >> kMaxShardBits, low = number & ((std::uint64_t{1} << low_bits_) - 1);
  return group << low_bits_ | low;
}

CountingBloom::Cell& CountingBloom::Opened(std::size_t place) {
  assert(place < cells_.size());
  Cell& cell = cells_[place];
  if (cell.counters.empty()) {
    cell.counters.resize(shape_.cell_bytes);
    ++held_;
  }
  return cell;
}

std::uint32_t CountingBloom::Count(std::uint64_t hash, std::uint32_t count, std::uint8_t epoch) {
  assert(!cells_.empty());
  const std::size_t group = SlotOf(hash) >> (kSlotBits - shape_.group_bits);
  Cell& cell = Opened(PlaceOf(group << kMaxShardBits | ShardOf(hash, kMaxShardBits)));
  // Of other bits than those that chose the cell. Two numbers make all places (Kirsch and Mitzenmacher 2006).
  const std::uint64_t bits = Mix(hash ^ kSalt);
  const auto first = static_cast<std::uint32_t>(bits), step = static_cast<std::uint32_t>(bits >> 32) | 1;
  const auto place = [&](int i) {
    return (first + static_cast<std::uint32_t>(i) * step) * std::uint64_t{shape_.cell_bytes} >> 32;
  };
  std::uint32_t least = kMaxBloomCount;
  for (int i = 0; i < shape_.hashes; ++i) least = std::min<std::uint32_t>(least, cell.counters[place(i)]);
  const std::uint32_t counted = least + std::min(count, kMaxBloomCount - least);
  for (int i = 0; i < shape_.hashes; ++i) {
    std::uint8_t& counter = cell.counters[place(i)];
    counter = std::max(counter, static_cast<std::uint8_t>(counted));
  }
  cell.epoch = epoch;
  return counted;
}

std::int64_t CountingBloom::NumberOf(std::size_t place, std::int32_t shard) const {
  const std::size_t group = place >> low_bits_, low = place & ((std::size_t{1} << low_bits_) - 1);
  return static_cast<std::int64_t>(group << kMaxShardBits | static_cast<std::size_t>(shard) << low_bits_ | low);
}

void CountingBloom::Merge(std::int64_t number, const std::uint8_t* counters, std::uint8_t epoch) {
  const std::size_t place = PlaceOf(static_cast<std::uint64_t>(number));
  if (place >= cells_.size()) return;
  Cell& cell = Opened(place);
  for (std::size_t i = 0; i < shape_.cell_bytes; ++i) cell.counters[i] = std::max(cell.counters[i], counters[i]);
  cell.epoch = epoch;
}

}  // namespace afo
