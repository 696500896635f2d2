// bfloat16, the upper half of a float32, and back.
//
// The functions have internal linkage and no headers with functions below them, for the kernels are compiled with them
// for each instruction set (kernels_impl.h).
#pragma once

#include <stdint.h>

namespace afo {

// The nearest one and of two the even one; what is not a number stays none.
static inline uint16_t NearestBfloat16(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t none = (bits >> 16 & 0x8000u) | 0x7fc0u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? none : nearest);
}

// The next one away from zero where `random`, of 16 bits, is above what lacks to it, else the next one towards zero: by
// chance, and right on average. What bfloat16 can hold stays as it is, and no finite number becomes an infinity.
static inline uint16_t RandomlyRoundedBfloat16(float value, uint32_t random) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t size = bits & 0x7fffffffu;
  // Masks, for g++ 12 does not vectorize one choice within another.
  const uint32_t is_finite = 0u - static_cast<uint32_t>(size < 0x7f800000u);
  const uint32_t is_none = 0u - static_cast<uint32_t>(size > 0x7f800000u);
  const uint32_t raised = size + (random & is_finite);
  const uint32_t largest = 0x7fffffffu ^ (is_finite & 0x00800000u);
  const uint32_t kept = (raised < largest ? raised : largest) | (is_none & 0x00400000u);
  return static_cast<uint16_t>(((bits & 0x80000000u) | kept) >> 16);
}

static inline float WidenedBfloat16(uint16_t value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(value) << 16);
}

}  // namespace afo
