#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/core/example_writer.h"
#include "tests/core/support.h"

namespace afo {
namespace testing {
void DecodeTwice(const std::uint8_t* data, std::size_t size);  // fuzz_example.cc
}
namespace {

// Features in any order, most of them such as are read.
std::string Written(testing::Random* random) {
  std::string entries;
  for (std::uint64_t left = random->Below(6); left > 0; --left) {
    const bool packed = random->Below(4) > 0;
    std::vector<std::int64_t> ids(random->Below(5));
    for (std::int64_t& id : ids) id = random->Key() >> random->Below(64);
    switch (random->Below(5)) {
      case 0:
        entries += testing::Entry("id", testing::IntList({random->Key() >> random->Below(64)}, packed));
        break;
      case 1:
        entries += testing::Entry("list", testing::IntList(ids, packed));
        break;
      case 2:
        entries += testing::Entry("price", testing::FloatList(random->Floats(3), packed));
        break;
      case 3:
        entries += testing::Entry("word", testing::BytesList({std::string(random->Below(200), 'x')}));
        break;
      default:
        entries += testing::Entry("unread", testing::IntList(ids, packed));
    }
  }
  return testing::Record(entries);
}

TEST_CASE("whatever the bytes are, a decoder's short cuts change nothing") {
  testing::Random random(1);
  for (int input = 0; input < 20000; ++input) {
    CAPTURE(input);
    const std::string written = Written(&random);
    // On the heap and of its size, so that AddressSanitizer sees who reads behind its end.
    std::vector<std::uint8_t> bytes(written.begin(), written.end());
    if (input % 8 == 0) bytes.resize(random.Below(bytes.size()));
    bytes.shrink_to_fit();
    for (std::uint64_t changes = random.Below(4); changes > 0 && !bytes.empty(); --changes) {
      bytes[random.Below(bytes.size())] = static_cast<std::uint8_t>(random.Bits());
    }
    testing::DecodeTwice(bytes.data(), bytes.size());  // aborts
  }
}

}  // namespace
}  // namespace afo
