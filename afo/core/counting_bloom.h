// How often keys were seen, about, in memory that does not depend on how many they are: never too low, and too high for
// a share of them that was chosen (Bloom 1970; counters as of Fan et al. 2000; a count raises only the lowest counters of
// its key, Estan and Varghese 2002).
//
// Counters are cut into cells by the key's slot and shard, so that a cell is under one shard's lock, and a checkpoint's
// cells go to whichever servers own their slots now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "afo/core/admission.h"

namespace afo {

constexpr std::uint32_t kMaxBloomCount = 255;

// Sizes by n keys of the table on all servers and p false positives: n |ln p| / ln^2 2 counters in all, |log2 p| a key.
struct BloomShape {
  explicit BloomShape(const AdmissionOptions& options);

  int group_bits = 0;            // slots are in 2 to the power of this groups
  std::uint32_t cell_bytes = 0;  // a multiple of 4; a byte is a counter
  int hashes = 0;
};

// The cells of one shard. Not thread-safe: the shard's lock is held.
class CountingBloom {
 public:
  CountingBloom(const AdmissionOptions& options, int shard_bits);

  // Adds to a key's count and returns it, at most kMaxBloomCount. Precondition: its options bloom.
  std::uint32_t Count(std::uint64_t hash, std::uint32_t count, std::uint8_t epoch);

  // Cells by place, empty until one of their keys is seen.
  std::size_t cells() const { return cells_.size(); }
  const std::vector<std::uint8_t>& cell(std::size_t place) const { return cells_[place].counters; }
  std::uint8_t epoch(std::size_t place) const { return cells_[place].epoch; }
  // What a cell is called in a table, whatever its shards: group << kMaxShardBits | the hash's bits for shards.
  std::int64_t NumberOf(std::size_t place, std::int32_t shard) const;
  // Each counter becomes the higher one; a number of no cell is passed over. Precondition: `counters` are a cell's.
  void Merge(std::int64_t number, const std::uint8_t* counters, std::uint8_t epoch);

  const BloomShape& shape() const { return shape_; }
  std::size_t bytes() const { return held_ * shape_.cell_bytes; }

 private:
  struct Cell {
    std::vector<std::uint8_t> counters;
    std::uint8_t epoch = 0;
  };

  // Of a cell's number; as many as there are cells, or more, for one that no cell has.
  std::size_t PlaceOf(std::uint64_t number) const;
  Cell& Opened(std::size_t place);

  BloomShape shape_;
  int low_bits_;  // of the hash's bits for shards, those that tell cells of a shard apart
  std::vector<Cell> cells_;
  std::size_t held_ = 0;
};

}  // namespace afo
