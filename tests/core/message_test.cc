#include "afo/core/message.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace afo {
namespace testing {
void ReadMessage(const std::uint8_t* data, std::size_t size);  // fuzz_message.cc
}  // namespace testing
namespace {

const std::vector<std::int64_t> kKeys{1, -2, INT64_MAX};
const std::vector<float> kValues(99, 0.5f);
const float kRate = 0.25f;

template <typename T>
MessagePart PartOf(PartType type, std::vector<std::int64_t> dims, const T* data, std::size_t count) {
  return {type, std::move(dims), reinterpret_cast<const char*>(data), count * sizeof(T)};
}

std::vector<MessagePart> Some() {
  return {PartOf(PartType::kInt64, {3}, kKeys.data(), 3), PartOf(PartType::kFloat32, {33, 3}, kValues.data(), 99),
          PartOf(PartType::kFloat32, {}, &kRate, 1), PartOf<float>(PartType::kFloat32, {0, 16}, nullptr, 0)};
}

std::string Written(MessageKind kind, const std::vector<MessagePart>& parts) {
  std::string bytes(MessageBytes(parts), 'x');
  WriteMessage(kind, parts, bytes.data(), Serial);
  return bytes;
}

std::string WrongOf(const std::string& bytes, MessageKind kind = MessageKind::kPull) {
  return ParseMessage(kind, bytes.data(), bytes.size()).wrong;
}

TEST_CASE("what was written is read, where it lies") {
  for (const auto& parts : {Some(), std::vector<MessagePart>{}}) {
    const std::string bytes = Written(MessageKind::kPush, parts);
    CHECK(bytes.size() % kMessageAlignment == 0);
    const ParsedMessage found = ParseMessage(MessageKind::kPush, bytes.data(), bytes.size());
    REQUIRE(found.wrong == "");
    REQUIRE(found.parts.size() == parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(found.parts[i].type == parts[i].type);
      CHECK(found.parts[i].dims == parts[i].dims);
      REQUIRE(found.parts[i].bytes == parts[i].bytes);
      CHECK((found.parts[i].data - bytes.data()) % kMessageAlignment == 0);
      if (parts[i].bytes > 0) CHECK(std::memcmp(found.parts[i].data, parts[i].data, parts[i].bytes) == 0);
    }
  }
}

TEST_CASE("the bytes are those of the first version") {
  const std::uint8_t two[] = {7, 9};
  const std::string bytes = Written(MessageKind::kAnswer, {PartOf(PartType::kUint8, {2}, two, 2)});
  REQUIRE(bytes.size() == 192);  // 32 + 72 to 128, and 2 to 64
  CHECK(bytes.substr(0, 4) == "AFOM");
  const std::string head{1, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0};  // version, kind, parts
  CHECK(bytes.substr(4, 12) == head);
  CHECK(static_cast<std::uint8_t>(bytes[16]) == 192);
  CHECK(bytes[32] == 9);  // uint8
  CHECK(bytes[33] == 1);  // a vector
  CHECK(bytes[40] == 2);
  CHECK(bytes.substr(128, 3) == std::string{7, 9, 0});
}

TEST_CASE("a byte that is another, or a length, is refused") {
  const std::string bytes = Written(MessageKind::kPull, Some());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    // What fills the head up is read by nobody.
    const bool is_filling = at >= 32 + 4 * 72 && at < 320;
    CHECK_MESSAGE(WrongOf(changed).empty() == is_filling, at);
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) CHECK(WrongOf(bytes.substr(0, length)) != "");
  CHECK(WrongOf(bytes + std::string(64, '\0')) != "");
}

TEST_CASE("it says what is wrong") {
  std::string bytes = Written(MessageKind::kPull, Some());
  CHECK(WrongOf(bytes, MessageKind::kPush) == "is of another kind");
  CHECK(WrongOf("short") == "is cut off");
  bytes[4] = 2;
  CHECK(WrongOf(bytes).substr(0, 48) == "has version 2 where this program reads 1: all co");
  bytes[0] = 'B';
  CHECK(WrongOf(bytes) == "is none of afo");
}

TEST_CASE("float32 goes as the nearest bfloat16, of two the even one") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> given{1.0f, -0.0f, 1.00390625f, 1.01171875f, 3.4e38f, inf, -inf, 1e-40f};
  const std::vector<float> nearest{1.0f, -0.0f, 1.0f, 1.015625f, inf, inf, -inf, 1e-40f};
  MessagePart part{PartType::kBfloat16, {8}, reinterpret_cast<const char*>(given.data()), 16, true};
  const std::string bytes = Written(MessageKind::kAnswer, {part});
  const ParsedMessage found = ParseMessage(MessageKind::kAnswer, bytes.data(), bytes.size());
  REQUIRE(found.parts.size() == 1);
  std::vector<float> wide(8);
  Widen(reinterpret_cast<const std::uint16_t*>(found.parts[0].data), 8, wide.data(), Serial);
  for (std::size_t i = 0; i + 1 < wide.size(); ++i) CHECK(wide[i] == nearest[i]);
  CHECK(wide[7] == doctest::Approx(1e-40f).epsilon(0.01));
  CHECK(std::signbit(wide[1]));
  const float none = std::nanf("");
  std::uint16_t narrow = 0;
  Narrow(&none, 1, &narrow, Serial);
  Widen(&narrow, 1, wide.data(), Serial);
  CHECK(std::isnan(wide[0]));
}

TEST_CASE("random bytes and changed messages are refused or read as they are") {
  std::mt19937 random(7);
  const std::string written = Written(MessageKind::kPull, Some());
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = i % 2 == 0 ? written : std::string(random() % 512, '\0');
    for (int change = 0; change < 4 && !bytes.empty(); ++change) {
      bytes[random() % std::min<std::size_t>(bytes.size(), 400)] = static_cast<char>(random());
    }
    bytes.insert(bytes.begin(), static_cast<char>(i % 4 == 3 ? random() : 1));
    testing::ReadMessage(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace afo
