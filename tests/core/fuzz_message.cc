// Bytes as somebody may send them to a server or a worker of a job, as a message of a step. They are refused, or parts
// come of them that lie within and are written again as they were; anything else ends the program. fuzz.sh has libFuzzer
// look for such bytes, the unit tests (message_test.cc) change what was written.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "afo/core/message.h"
#include "afo/core/snapshot.h"

namespace afo::testing {
namespace {

constexpr std::size_t kHeadBytes = 32, kEntryBytes = 72, kHeadSum = 24;

void Require(bool holds) {
  if (!holds) std::abort();
}

// Has the length and the sum of the header fit, so that what lies behind them is reached.
void Sign(std::string* message) {
  if (message->size() < kHeadBytes) return;
  const std::uint64_t length = message->size();
  std::memcpy(message->data() + 16, &length, sizeof(length));
  std::uint32_t parts, zero = 0;
  std::memcpy(&parts, message->data() + 8, sizeof(parts));
  const std::size_t head = kHeadBytes + std::size_t{parts} * kEntryBytes;
  if (head > message->size()) return;
  std::memcpy(message->data() + kHeadSum, &zero, sizeof(zero));
  const std::uint32_t sum = Crc32c(message->data(), head);
  std::memcpy(message->data() + kHeadSum, &sum, sizeof(sum));
}

}  // namespace

// The first byte: whether the header's sum is made to fit, and of which kind the message should be.
void ReadMessage(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  std::string message(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 1) Sign(&message);
  const auto kind = static_cast<MessageKind>(1 + (data[0] >> 1) % 3);
  const ParsedMessage found = ParseMessage(kind, message.data(), message.size());
  if (!found.wrong.empty()) {
    Require(found.parts.empty());
    return;
  }
  for (const MessagePart& part : found.parts) {
    Require(part.data >= message.data() && part.data + part.bytes <= message.data() + message.size());
    Require((part.data - message.data()) % kMessageAlignment == 0);
  }
  Require(MessageBytes(found.parts) == message.size());
  std::string again(message.size(), 'x');
  WriteMessage(kind, found.parts, again.data(), Serial);
  // All but what fills parts up, which the sum covers and nobody reads.
  const ParsedMessage second = ParseMessage(kind, again.data(), again.size());
  Require(second.wrong.empty() && second.parts.size() == found.parts.size());
  for (std::size_t i = 0; i < found.parts.size(); ++i) {
    Require(second.parts[i].type == found.parts[i].type && second.parts[i].dims == found.parts[i].dims);
    Require(found.parts[i].bytes == 0 ||
            std::memcmp(second.parts[i].data, found.parts[i].data, found.parts[i].bytes) == 0);
  }
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::ReadMessage(data, size);
  return 0;
}
#endif
