#include "afo/psplus/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "afo/core/snapshot.h"

namespace afo::psplus {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Wire {
  std::array<char, 4> magic{'A', 'F', 'O', 'P'};
  std::uint16_t version = kFrameVersion;
  std::uint16_t kind = 0;
  std::uint32_t flags = 0;
  std::uint32_t request_kind = 0;
  std::uint64_t payload = 0;
  std::uint64_t client = 0;
  std::uint64_t sequence = 0;
  std::uint64_t store_version = 0;
  std::uint64_t acknowledged = 0;
  std::uint32_t zero = 0;
  std::uint32_t sum = 0;
};
static_assert(sizeof(Wire) == kHeaderBytes);

constexpr std::uint32_t kAllFlags = kOnce | kUnanswered;

std::uint32_t SumOf(const Wire& wire) {
  return Crc32c(reinterpret_cast<const char*>(&wire), offsetof(Wire, sum));
}

DecodedHeader Wrong(std::string what) { return {{}, std::move(what)}; }

bool IsKind(std::uint16_t kind) {
  return kind >= static_cast<std::uint16_t>(FrameKind::kHello) &&
         kind <= static_cast<std::uint16_t>(FrameKind::kFailure);
}

}  // namespace

HeaderBytes Encode(const FrameHeader& header) {
  Wire wire;
  wire.kind = static_cast<std::uint16_t>(header.kind);
  wire.flags = header.flags;
  wire.request_kind = header.request_kind;
  wire.payload = header.payload;
  wire.client = header.client;
  wire.sequence = header.sequence;
  wire.store_version = header.store_version;
  wire.acknowledged = header.acknowledged;
  wire.sum = SumOf(wire);
  return std::bit_cast<HeaderBytes>(wire);
}

DecodedHeader DecodeHeader(const char* bytes, std::uint64_t most) {
  Wire wire;
  std::memcpy(&wire, bytes, sizeof(wire));
  if (wire.magic != Wire{}.magic) return Wrong("is none of afo");
  // Before the sum, which another version may have elsewhere.
  if (wire.version != kFrameVersion) {
    return Wrong("has version " + std::to_string(wire.version) + " where this program reads " +
                 std::to_string(kFrameVersion) + ": all containers of a job need the same version of afo");
  }
  if (wire.sum != SumOf(wire)) return Wrong("is damaged in its header");
  if (!IsKind(wire.kind)) return Wrong("is of kind " + std::to_string(wire.kind) + ", which there is not");
  if ((wire.flags & ~kAllFlags) != 0 || wire.zero != 0) return Wrong("has flags that there are not");
  if (wire.payload > most) {
    return Wrong("has a payload of " + std::to_string(wire.payload) + " bytes where at most " + std::to_string(most) +
                 " are allowed");
  }
  return {{static_cast<FrameKind>(wire.kind), wire.flags, wire.request_kind, wire.payload, wire.client, wire.sequence,
           wire.store_version, wire.acknowledged},
          {}};
}

std::string EncodeFailure(const Failure& failure) {
  const auto code = static_cast<std::uint32_t>(failure.code);
  std::string bytes(sizeof(code), '\0');
  std::memcpy(bytes.data(), &code, sizeof(code));
  return bytes + failure.words.substr(0, kMostWords);
}

std::optional<Failure> DecodeFailure(std::string_view payload) {
  std::uint32_t code = 0;
  if (payload.size() < sizeof(code) || payload.size() - sizeof(code) > kMostWords) return std::nullopt;
  std::memcpy(&code, payload.data(), sizeof(code));
  if (code == static_cast<std::uint32_t>(Code::kOk)) return std::nullopt;
  return Failure{static_cast<Code>(code), std::string(payload.substr(sizeof(code))), 0};
}

}  // namespace afo::psplus
