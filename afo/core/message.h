// A message of a training step between a worker and a parameter server: what is asked, answered, or pushed, as arrays
// of numbers. All of a step for a server is one message, whatever the number of tables.
//
//   message := header | entry[parts] | part[parts]                 little-endian
//   header  := "AFOM" | version u16 | kind u16 | parts u32 | guard u32 | length of the message u64
//              | CRC-32C of the header, this field 0, and all entries u32 | checksum of all behind the entries u32
//   entry   := type u8 | rank u8 | 0 [6] | dimensions u64[8], those beyond the rank 0
//
// Entries and parts begin and end at multiples of 64 bytes, filled up by zeros, so that a part is used where it lies.
// The checksum of the parts is the CRC-32C of those of three stripes of whole words, as a processor sums three at a
// time. Where the carrier guards what it carries, the guard is 1 and there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "afo/core/parallel.h"

namespace afo {

inline constexpr std::uint16_t kMessageVersion = 1;
inline constexpr std::size_t kMessageAlignment = 64;
inline constexpr std::size_t kMostParts = 1 << 16;
inline constexpr int kMostDims = 8;

enum class MessageKind : std::uint16_t { kPull = 1, kAnswer = 2, kPush = 3 };

enum class PartType : std::uint8_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kBfloat16 = 3,
  kFloat16 = 4,
  kInt8 = 5,
  kInt16 = 6,
  kInt32 = 7,
  kInt64 = 8,
  kUint8 = 9,
  kUint16 = 10,
  kUint32 = 11,
  kUint64 = 12,
  kBool = 13,
};

// Bytes of a number; 0: there is no such type.
std::size_t SizeOf(PartType type);

// An array in memory that is somebody else's.
struct MessagePart {
  // As it is in the message, as are `bytes`.
  PartType type;
  std::vector<std::int64_t> dims;
  const char* data;
  std::size_t bytes;
  // Of what is to be written as bfloat16: `data` are float32.
  bool narrows = false;
};

// To bfloat16, the nearest one and of two the even one, and back.
void Narrow(const float* from, std::size_t count, std::uint16_t* to, const Parallel& parallel);
void Widen(const std::uint16_t* from, std::size_t count, float* to, const Parallel& parallel);

// What makes sure that the parts are those that were sent.
enum class Guard : std::uint32_t { kSum = 0, kCarrier = 1 };

// Preconditions: at most kMostParts with at most kMostDims each, and bytes as type and dims say.
std::size_t MessageBytes(std::span<const MessagePart> parts);
// Writes MessageBytes(parts) bytes.
void WriteMessage(MessageKind kind, std::span<const MessagePart> parts, char* to, const Parallel& parallel);

// The same without the parts, which the carrier guards and sends from where they lie, each filled up to the alignment:
// header and entries, as many bytes as they are. Precondition: none narrows.
std::string MessageHead(MessageKind kind, std::span<const MessagePart> parts);
constexpr std::size_t Padding(std::size_t bytes) { return -bytes & (kMessageAlignment - 1); }

struct ParsedMessage {
  // Within the bytes that were read.
  std::vector<MessagePart> parts;
  // What is wrong with them, as the end of a sentence; empty: nothing.
  std::string wrong;
};

// Reads `size` bytes, whoever sent them, and nothing beyond.
ParsedMessage ParseMessage(MessageKind kind, const char* bytes, std::size_t size, Guard guard = Guard::kSum);

}  // namespace afo
