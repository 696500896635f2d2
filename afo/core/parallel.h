// How the engine uses more than one thread, without knowing whose threads they are.
#pragma once

#include <cstdint>
#include <functional>

namespace afo {

// Calls `body(first, last)` for ranges that cover [0, units) without overlap, on any threads and in any order; `cost` is
// a guess of a unit's nanoseconds. How often it calls says nothing of the number of threads.
using Body = std::function<void(std::int64_t first, std::int64_t last)>;
using Parallel = std::function<void(std::int64_t units, std::int64_t cost, const Body& body)>;

inline void Serial(std::int64_t units, std::int64_t, const Body& body) {
  if (units > 0) body(0, units);
}

}  // namespace afo
