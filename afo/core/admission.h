// Which keys get a row. Most of a click log's ids are seen once: their rows would be most of a table, and teach nothing.
#pragma once

#include <cmath>
#include <cstdint>

#include "afo/core/hash.h"

namespace afo {

// All keys by default. A counter and a probability are not combined.
struct AdmissionOptions {
  std::uint32_t min_count = 1;  // how often a key is seen before it has a row
  float probability = 1.0f;     // that one sighting admits a key
  float default_value = 0.0f;   // all weights of a key without a row
  // Keys of the table on all servers, about: counts are those of a counting Bloom filter. 0: exact counts.
  std::int64_t max_element_size = 0;
  float false_positive_probability = 0.01f;

  bool open() const { return min_count <= 1 && probability >= 1.0f; }
  bool blooms() const { return min_count > 1 && max_element_size > 0; }
  bool remembers() const { return min_count > 1 && max_element_size == 0; }

  bool operator==(const AdmissionOptions&) const = default;
};

// Whether `count` sightings of a key at a step admit it: with the chance of at least one success in `count` draws, and
// the same whenever and wherever it is asked.
inline bool AdmitByChance(const AdmissionOptions& options, std::int64_t key, std::uint32_t step, std::uint32_t count) {
  const std::uint64_t bits = Mix(HashOf(key) ^ Mix(step + 0x9e3779b97f4a7c15ull));
  const double refused = std::pow(1.0 - static_cast<double>(options.probability), count);
  return static_cast<double>(bits >> 11) * 0x1p-53 >= refused;
}

}  // namespace afo
