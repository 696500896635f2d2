// What is wrong, as the C functions tell it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace afo::psplus {

// Writes words into `problem`, which has room for `size` bytes, cut off where they are longer; whether there are any.
inline bool Tell(const std::string& words, char* problem, std::int64_t size) {
  if (words.empty() || size <= 0) return !words.empty();
  std::strncpy(problem, words.c_str(), static_cast<std::size_t>(size) - 1);
  problem[size - 1] = 0;
  return true;
}

}  // namespace afo::psplus
