// Rows of one shard: everything that is known of a key, in one place.
//
//   row := { header 16 B | weights[dim], padded to 4 B | slots of the optimizer, float32 }, padded to 16 B
//
// One row is one value: a lookup and an update touch the same lines, and whoever copies a row under the shard's lock has
// weights and slots of the same instant. Rows have numbers that stay; their addresses hold until the next `Reserve`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "afo/core/bfloat16.h"
#include "afo/core/memory.h"
#include "afo/core/optimizer.h"

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

// What the rows of a table are made of; `floats` counts weights and slots.
struct RowLayout {
  std::int32_t dim = 0;
  std::int32_t floats = 0;
  WeightType weights = WeightType::kFloat32;

  std::int32_t slots() const { return floats - dim; }
  std::size_t weight_bytes() const {
    return static_cast<std::size_t>(dim) * (weights == WeightType::kFloat32 ? sizeof(float) : sizeof(std::uint16_t));
  }
  // From the weights to the slots.
  std::size_t slots_at() const { return (weight_bytes() + sizeof(float) - 1) / sizeof(float) * sizeof(float); }
  std::size_t stride() const {
    return (sizeof(RowHeader) + slots_at() + static_cast<std::size_t>(slots()) * sizeof(float) + 15) / 16 * 16;
  }
  // What `count` weights are once they have been in a row.
  void Round(float* values, std::int32_t count) const {
    if (weights == WeightType::kFloat32) return;
    for (std::int32_t i = 0; i < count; ++i) values[i] = WidenedBfloat16(NearestBfloat16(values[i]));
  }
};

// Rows are short: a call of memcpy costs as much as the copy.
inline void CopyFloats(float* to, const float* from, std::int32_t count) {
  constexpr std::int32_t kAtOnce = 8;
  std::int32_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) std::memcpy(to + i, from + i, kAtOnce * sizeof(float));
  for (; i < count; ++i) to[i] = from[i];
}

// Not thread-safe: the shard's lock is held.
class RowStore {
 public:
  explicit RowStore(RowLayout layout) : layout_(layout), stride_(layout.stride()) {}

  RowHeader* header(std::uint32_t row) const { return reinterpret_cast<RowHeader*>(at(row)); }
  std::int64_t key(std::uint32_t row) const { return header(row)->key; }
  // Of the layout's type.
  void* weights(std::uint32_t row) const { return at(row) + sizeof(RowHeader); }
  float* slots(std::uint32_t row) const {
    return reinterpret_cast<float*>(at(row) + sizeof(RowHeader) + layout_.slots_at());
  }
  // The weights as float32, whatever they are kept as; written as bfloat16, they are rounded to the nearest.
  void Read(std::uint32_t row, float* to) const {
    if (layout_.weights == WeightType::kFloat32) return CopyFloats(to, static_cast<float*>(weights(row)), layout_.dim);
    const auto* from = static_cast<const std::uint16_t*>(weights(row));
    for (std::int32_t i = 0; i < layout_.dim; ++i) to[i] = WidenedBfloat16(from[i]);
  }
  void Write(std::uint32_t row, const float* from) const {
    void* kept = weights(row);
    if (layout_.weights == WeightType::kFloat32) return CopyFloats(static_cast<float*>(kept), from, layout_.dim);
    auto* to = static_cast<std::uint16_t*>(kept);
    for (std::int32_t i = 0; i < layout_.dim; ++i) to[i] = NearestBfloat16(from[i]);
  }
  std::size_t stride() const { return stride_; }

  // Rows that ever were, free ones included: numbers are below this.
  std::uint32_t end() const { return end_; }
  std::size_t bytes() const { return pages_.populated(); }

  // Room for `count` rows more; false when the system has no more memory, or the shard no more numbers.
  [[nodiscard]] bool Reserve(std::size_t count);
  // A row with a zeroed header; weights and slots are what they were. Precondition: reserved.
  std::uint32_t Take();
  // Precondition: it was taken, and not freed since.
  void Free(std::uint32_t row);

 private:
  std::uint8_t* at(std::uint32_t row) const { return pages_.data() + row * stride_; }

  Pages pages_;
  RowLayout layout_;
  std::size_t stride_;
  std::uint32_t end_ = 0;
  std::uint32_t first_free_ = kNoRow;
  std::uint32_t free_ = 0;
};

}  // namespace afo
