#include "afo/psplus/frame.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "afo/psplus/buffer.h"

namespace afo::psplus {
namespace {

constexpr std::uint64_t kMost = 1 << 20;

FrameHeader Some() { return {FrameKind::kRequest, kOnce, 7, 4096, 0x1122334455667788, 12, 3, 11}; }

std::string WrongOf(const HeaderBytes& bytes, std::uint64_t most = kMost) {
  return DecodeHeader(bytes.data(), most).wrong;
}

TEST_CASE("a header that was written is read") {
  for (const FrameKind kind : {FrameKind::kHello, FrameKind::kWelcome, FrameKind::kRequest, FrameKind::kReply,
                               FrameKind::kFailure}) {
    FrameHeader header = Some();
    header.kind = kind;
    const DecodedHeader decoded = DecodeHeader(Encode(header).data(), kMost);
    CHECK(decoded.wrong == "");
    CHECK(decoded.header == header);
  }
}

TEST_CASE("the bytes are those of the first version") {
  const HeaderBytes bytes = Encode(Some());
  CHECK(std::string(bytes.data(), 4) == "AFOP");
  const std::string start{1, 0, 3, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0};
  CHECK(std::string(bytes.data() + 4, 20) == start);
  CHECK(static_cast<std::uint8_t>(bytes[24]) == 0x88);
  CHECK(bytes[32] == 12);
  CHECK(bytes[40] == 3);
  CHECK(bytes[48] == 11);
}

TEST_CASE("a header with any other bit is refused") {
  const HeaderBytes bytes = Encode(Some());
  for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    HeaderBytes changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    CHECK_MESSAGE(WrongOf(changed) != "", bit);
  }
}

TEST_CASE("it says what is wrong with a header") {
  FrameHeader header = Some();
  HeaderBytes bytes = Encode(header);
  bytes[63] = static_cast<char>(bytes[63] ^ 1);
  CHECK(WrongOf(bytes) == "is damaged in its header");
  bytes[4] = 9;
  CHECK(WrongOf(bytes) ==
        "has version 9 where this program reads 1: all containers of a job need the same version of afo");
  bytes[0] = 'B';
  CHECK(WrongOf(bytes) == "is none of afo");
  CHECK(WrongOf(Encode(header), 4095) == "has a payload of 4096 bytes where at most 4095 are allowed");
  CHECK(WrongOf(Encode(header), 4096) == "");
  header.flags = 4;
  CHECK(WrongOf(Encode(header)) == "has flags that there are not");
  header.kind = static_cast<FrameKind>(6);
  CHECK(WrongOf(Encode(header)) == "is of kind 6, which there is not");
  header.kind = static_cast<FrameKind>(0);
  CHECK(WrongOf(Encode(header)) == "is of kind 0, which there is not");
}

TEST_CASE("of random headers only whole ones are read") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    HeaderBytes bytes = Encode(Some());
    if (i % 2 == 0) {
      for (char& each : bytes) each = static_cast<char>(random());
    } else {
      for (std::uint64_t left = 1 + random() % 4; left > 0; --left) {
        bytes[random() % kHeaderBytes] = static_cast<char>(random());
      }
    }
    const bool is_whole = bytes == Encode(Some());
    CHECK((WrongOf(bytes) == "") == is_whole);
  }
}

TEST_CASE("a failure that was written is read, and nothing else is") {
  const std::string bytes = EncodeFailure({Code::kForgotten, "too old", 0});
  const auto failure = DecodeFailure(bytes);
  REQUIRE(failure);
  CHECK(failure->code == Code::kForgotten);
  CHECK(failure->words == "too old");
  CHECK_FALSE(DecodeFailure(bytes.substr(0, 3)));
  CHECK_FALSE(DecodeFailure(std::string(4, '\0')));
  CHECK(DecodeFailure(EncodeFailure({Code::kBusy, std::string(2 * kMostWords, 'x'), 0}))->words.size() == kMostWords);
  CHECK_FALSE(DecodeFailure(std::string(kMostWords + 5, 'x')));
}

TEST_CASE("a buffer begins at a multiple of 64 bytes") {
  for (const std::size_t size : {0, 1, 63, 4097}) {
    const auto buffer = Buffer::Of(size);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64 == 0);
    CHECK(buffer->size() == size);
    std::memset(buffer->data(), 1, size);
  }
}

}  // namespace
}  // namespace afo::psplus
