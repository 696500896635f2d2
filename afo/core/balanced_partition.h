// Work that comes in pieces of different sizes, dealt out to threads.
#pragma once

#include <cstdint>
#include <vector>

namespace afo {

// The part of each piece, so that `parts` parts have about as much to do: the largest piece first, each to the part that
// has least by then. Empty where a part would have more than a quarter above its share.
std::vector<int> BalancedPartition(const std::vector<std::int64_t>& pieces, int parts);

}  // namespace afo
