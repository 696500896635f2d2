// Work that comes in pieces of different sizes, cut into parts of about the same size, one for each thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace afo {

// The part of each piece, so that `parts` parts have about as much to do: the largest piece first, each to the part that
// has least by then. Nothing where a part would have more than a quarter above its share. Precondition: parts >= 1.
std::optional<std::vector<int>> BalancedPartition(const std::vector<std::int64_t>& pieces, int parts);

}  // namespace afo
