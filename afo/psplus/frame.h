// What goes over a connection: frames, each a header and a payload that only the service reads.
//
//   frame  := header | payload                                     little-endian
//   header := "AFOP" | version u16 | kind u16 | flags u32 | request's kind u32 | bytes of the payload u64 | client u64
//             | sequence u64 | store version u64 | acknowledged u64 | 0 u32 | CRC-32C of the 60 bytes before u32
//
// The payload has no sum of its own: TLS guards it, and messages (afo/core/message.h) have one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace afo::psplus {

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::uint16_t kFrameVersion = 1;

enum class FrameKind : std::uint16_t {
  // A client's first; `flags` may say kUnanswered.
  kHello = 1,
  // The server's answer to it, with its store version. Requests come only after it.
  kWelcome = 2,
  kRequest = 3,
  kReply = 4,
  // Instead of a reply, or, of sequence 0, instead of a welcome.
  kFailure = 5,
};

// Of a request: it changes something, and is never to be carried out twice.
inline constexpr std::uint32_t kOnce = 1;
// Of a hello: requests flagged kOnce were sent on an earlier connection and are not answered.
inline constexpr std::uint32_t kUnanswered = 2;

// Why there is no reply. A service has codes of its own from kServiceCodes on.
enum class Code : std::uint32_t {
  kOk = 0,
  // Of a server. The request was not carried out, except with kInternal, where nobody knows.
  kOtherVersion = 1,   // the server's store has another version; the frame says which
  kUnknownClient = 2,  // the server does not remember the client, which has requests that it may have carried out
  kForgotten = 3,      // too old to know whether it was carried out
  kBusy = 4,           // a limit is reached
  kInternal = 5,       // the service failed, or gave no answer
  // Of a client, without a server's word: nobody knows whether a request that was sent is carried out.
  kDeadline = 100,
  kUnreachable = 101,
  kClosed = 102,
  kTooLarge = 103,
};
inline constexpr std::uint32_t kServiceCodes = 1000;

struct FrameHeader {
  FrameKind kind = FrameKind::kHello;
  std::uint32_t flags = 0;
  std::uint32_t request_kind = 0;
  std::uint64_t payload = 0;
  std::uint64_t client = 0;
  std::uint64_t sequence = 0;
  std::uint64_t store_version = 0;
  // Of a request: each one of a lower sequence is answered, and need not be remembered.
  std::uint64_t acknowledged = 0;

  bool operator==(const FrameHeader&) const = default;
};

using HeaderBytes = std::array<char, kHeaderBytes>;
HeaderBytes Encode(const FrameHeader& header);

struct [[nodiscard]] DecodedHeader {
  FrameHeader header;
  // What is wrong with the bytes, as the end of a sentence; empty: nothing.
  std::string wrong;
};

// Reads kHeaderBytes bytes, whoever sent them. `most`: bytes that a payload may have.
DecodedHeader DecodeHeader(const char* bytes, std::uint64_t most);

// The payload of a failure: code u32 and words in UTF-8, at most kMostWords bytes.
inline constexpr std::size_t kMostWords = 1 << 16;
struct Failure {
  Code code = Code::kInternal;
  std::string words;
  // The server's, with kOtherVersion.
  std::uint64_t store_version = 0;
};
std::string EncodeFailure(const Failure& failure);
// Nothing where the bytes are none. The version is the header's.
std::optional<Failure> DecodeFailure(std::string_view payload);

}  // namespace afo::psplus
