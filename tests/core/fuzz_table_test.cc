#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/core/support.h"

namespace afo {
namespace testing {
void PlayOnTable(const std::uint8_t* data, std::size_t size);  // fuzz_table.cc
}
namespace {

// AFO_FUZZ_INPUTS: how many, to look for longer than a test may.
std::uint64_t Inputs() {
  const char* wanted = std::getenv("AFO_FUZZ_INPUTS");
  return wanted == nullptr ? 300 : std::stoull(wanted);
}

TEST_CASE("a table does what a dictionary does, for any bytes") {
  for (std::uint64_t seed = 0; seed < Inputs(); ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    std::vector<std::uint8_t> bytes(random.Below(500));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.Bits());
    REQUIRE_NOTHROW(testing::PlayOnTable(bytes.data(), bytes.size()));
  }
}

}  // namespace
}  // namespace afo
