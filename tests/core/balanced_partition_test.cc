#include "afo/core/balanced_partition.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "tests/core/support.h"

namespace afo {
namespace {

TEST_CASE("pieces are dealt out evenly or not at all") {
  testing::Random random(1);
  int dealt = 0;
  for (int round = 0; round < 500; ++round) {
    const int parts = 1 + static_cast<int>(random.Below(8));
    std::vector<std::int64_t> pieces(random.Below(60));
    std::int64_t all = 0;
    for (std::int64_t& piece : pieces) {
      piece = static_cast<std::int64_t>(random.Below(1000));
      all += piece;
    }
    const std::vector<int> owners = BalancedPartition(pieces, parts);
    if (owners.empty()) continue;
    ++dealt;
    REQUIRE(owners.size() == pieces.size());
    std::vector<std::int64_t> loads(parts);
    for (std::size_t i = 0; i < pieces.size(); ++i) loads.at(owners[i]) += pieces[i];
    for (const std::int64_t load : loads) CHECK(4 * load * parts <= 5 * all + 4 * parts);
  }
  CHECK(dealt > 250);
}

TEST_CASE("equal pieces go round, and one giant is nobody's") {
  CHECK(BalancedPartition({5, 5, 5, 5}, 2) == std::vector<int>{0, 1, 0, 1});
  CHECK(BalancedPartition({100, 1, 1}, 2).empty());
  CHECK(BalancedPartition({100, 1, 1}, 1) == std::vector<int>{0, 0, 0});
}

}  // namespace
}  // namespace afo
