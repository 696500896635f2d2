#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "afo/core/snapshot.h"
#include "tests/core/support.h"

namespace afo {
namespace testing {
void ReadAsBlock(const std::uint8_t* data, std::size_t size);  // fuzz_snapshot.cc
}
namespace {

// A block of a few rows behind the byte that says how wide they are.
std::vector<std::uint8_t> Written(testing::Random* random) {
  RowBlock block;
  block.floats = 1 + static_cast<std::uint32_t>(random->Below(8));
  block.removed = random->Keys(random->Below(4));
  block.keys = random->Keys(random->Below(6));
  block.steps.resize(block.keys.size(), 3);
  block.frequencies.resize(block.keys.size(), 7);
  block.values = random->Floats(block.keys.size() * block.floats);
  std::string bytes(1, static_cast<char>((block.floats - 1) | (random->Bits() & 0x80)));
  bytes += Encode(block);
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("whatever the bytes are, a reader of blocks takes what was written and nothing else") {
  testing::Random random(1);
  for (int input = 0; input < 3000; ++input) {
    CAPTURE(input);
    std::vector<std::uint8_t> bytes = Written(&random);
    if (input % 8 == 0) bytes.resize(random.Below(bytes.size()));
    for (std::uint64_t changes = random.Below(4); changes > 0 && !bytes.empty(); --changes) {
      bytes[random.Below(bytes.size())] = static_cast<std::uint8_t>(random.Bits());
    }
    testing::ReadAsBlock(bytes.data(), bytes.size());  // aborts
  }
}

}  // namespace
}  // namespace afo
