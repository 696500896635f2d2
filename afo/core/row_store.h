// Rows of one shard: everything that is known of a key, in one place.
//
//   row := { header 16 B | weights[dim] | slots of the optimizer }, padded to 16 B
//
// One row is one value: a lookup and an update touch the same lines, and whoever copies a row under the shard's lock has
// weights and slots of the same instant. Rows have numbers that stay; their addresses hold until the next `Reserve`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "afo/core/memory.h"

namespace afo {

constexpr std::uint32_t kNoRow = 0xffffffffu;
// The step of a row that is on the free list.
constexpr std::uint32_t kFreeStep = 0xffffffffu;
constexpr std::uint32_t kMaxFrequency = (1u << 24) - 1;

struct RowHeader {
  std::int64_t key;        // of a free row: the number of the next one
  std::uint32_t step;      // of the last update
  std::uint32_t counters;  // frequency << 8 | epoch of the last change, modulo 256

  std::uint32_t frequency() const { return counters >> 8; }
  std::uint8_t epoch() const { return static_cast<std::uint8_t>(counters); }
  void set_counters(std::uint64_t frequency, std::uint8_t epoch) {
    const std::uint64_t kept = frequency < kMaxFrequency ? frequency : kMaxFrequency;
    counters = static_cast<std::uint32_t>(kept << 8) | epoch;
  }
  bool is_free() const { return step == kFreeStep; }
};
static_assert(sizeof(RowHeader) == 16, "weights begin behind 16 bytes, and stay aligned to 16");

// How long the rows of a table are; `floats` counts weights and slots.
struct RowLayout {
  std::int32_t dim = 0;
  std::int32_t floats = 0;
  std::size_t stride() const {
    return (sizeof(RowHeader) + static_cast<std::size_t>(floats) * sizeof(float) + 15) / 16 * 16;
  }
};

// Not thread-safe: the shard's lock is held.
class RowStore {
 public:
  explicit RowStore(RowLayout layout) : stride_(layout.stride()) {}

  RowHeader* header(std::uint32_t row) const { return reinterpret_cast<RowHeader*>(at(row)); }
  std::int64_t key(std::uint32_t row) const { return header(row)->key; }
  float* values(std::uint32_t row) const { return reinterpret_cast<float*>(at(row) + sizeof(RowHeader)); }
  std::size_t stride() const { return stride_; }

  // Rows that ever were, free ones included: numbers are below this.
  std::uint32_t end() const { return end_; }
  std::size_t bytes() const { return pages_.populated(); }

  // Room for `count` rows more; false when the system has no more memory, or the shard no more numbers.
  [[nodiscard]] bool Reserve(std::size_t count);
  // A row with a zeroed header; its values are what they were. Precondition: reserved.
  std::uint32_t Take();
  // Precondition: it was taken, and not freed since.
  void Free(std::uint32_t row);

 private:
  std::uint8_t* at(std::uint32_t row) const { return pages_.data() + row * stride_; }

  Pages pages_;
  std::size_t stride_;
  std::uint32_t end_ = 0;
  std::uint32_t first_free_ = kNoRow;
  std::uint32_t free_ = 0;
};

}  // namespace afo
