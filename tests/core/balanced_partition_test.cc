#include "afo/core/balanced_partition.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/core/support.h"

namespace afo {
namespace {

TEST_CASE("pieces are parted evenly or not at all") {
  testing::Random random(1);
  int parted = 0;
  for (int round = 0; round < 500; ++round) {
    const int parts = 1 + static_cast<int>(random.Below(8));
    std::vector<std::int64_t> pieces(random.Below(60));
    std::int64_t all = 0;
    for (std::int64_t& piece : pieces) {
      piece = static_cast<std::int64_t>(random.Below(1000));
      all += piece;
    }
    const std::optional<std::vector<int>> found = BalancedPartition(pieces, parts);
    if (!found.has_value()) continue;
    const std::vector<int>& owners = *found;
    ++parted;
    REQUIRE(owners.size() == pieces.size());
    std::vector<std::int64_t> loads(parts);
    for (std::size_t i = 0; i < pieces.size(); ++i) loads.at(owners[i]) += pieces[i];
    for (const std::int64_t load : loads) CHECK(4 * load * parts <= 5 * all + 4 * parts);
  }
  CHECK(parted > 250);
}

TEST_CASE("equal pieces go round, and one giant is nobody's") {
  CHECK(BalancedPartition({5, 5, 5, 5}, 2) == std::vector<int>{0, 1, 0, 1});
  CHECK_FALSE(BalancedPartition({100, 1, 1}, 2).has_value());
  CHECK(BalancedPartition({100, 1, 1}, 1) == std::vector<int>{0, 0, 0});
}

}  // namespace
}  // namespace afo
