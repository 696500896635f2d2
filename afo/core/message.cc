#include "afo/core/message.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "afo/core/bfloat16.h"
#include "afo/core/snapshot.h"

namespace afo {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Header {
  std::array<char, 4> magic{'A', 'F', 'O', 'M'};
  std::uint16_t version = kMessageVersion;
  std::uint16_t kind = 0;
  std::uint32_t parts = 0;
  Guard guard = Guard::kSum;
  std::uint64_t length = 0;
  std::uint32_t head_sum = 0;
  std::uint32_t data_sum = 0;
};
static_assert(sizeof(Header) == 32);

struct Entry {
  PartType type{};
  std::uint8_t rank = 0;
  std::array<std::uint8_t, 6> zero{};
  std::array<std::uint64_t, kMostDims> dims{};
};
static_assert(sizeof(Entry) == 72);

constexpr std::size_t kNoSize = SIZE_MAX;

// What threads take at a time, and nanoseconds of a thousand of what is there.
constexpr std::size_t kPiece = 1 << 15;
constexpr std::int64_t kNumberCost = 400, kByteCost = 100;

// Calls `body(first, last)` for all of [0, count).
template <typename Body>
void InPieces(std::size_t count, std::int64_t cost_per_thousand, const Parallel& parallel, const Body& body) {
  const auto pieces = static_cast<std::int64_t>((count + kPiece - 1) / kPiece);
  parallel(pieces, cost_per_thousand * kPiece / 1000, [count, &body](std::int64_t first, std::int64_t last) {
    body(static_cast<std::size_t>(first) * kPiece, std::min(count, static_cast<std::size_t>(last) * kPiece));
  });
}

constexpr std::size_t Aligned(std::size_t size) { return (size + kMessageAlignment - 1) & ~(kMessageAlignment - 1); }

std::size_t HeadBytes(std::size_t parts) { return Aligned(sizeof(Header) + parts * sizeof(Entry)); }

// Of the header with its own sum 0, and the entries behind it.
std::uint32_t HeadSum(const char* bytes, std::size_t parts) {
  std::vector<char> head(bytes, bytes + sizeof(Header) + parts * sizeof(Entry));
  std::memset(head.data() + offsetof(Header, head_sum), 0, sizeof(std::uint32_t));
  return Crc32c(head.data(), head.size());
}

Header HeaderOf(MessageKind kind, std::span<const MessagePart> parts) {
  Header header;
  header.kind = static_cast<std::uint16_t>(kind);
  header.parts = static_cast<std::uint32_t>(parts.size());
  header.length = MessageBytes(parts);
  return header;
}

// All of the head but the header.
void WriteEntries(std::span<const MessagePart> parts, char* head) {
  std::memset(head, 0, HeadBytes(parts.size()));
  char* entries = head + sizeof(Header);
  for (const MessagePart& part : parts) {
    Entry entry;
    entry.type = part.type;
    entry.rank = static_cast<std::uint8_t>(part.dims.size());
    std::copy(part.dims.begin(), part.dims.end(), entry.dims.begin());
    std::memcpy(entries, &entry, sizeof(entry));
    entries += sizeof(entry);
  }
}

// With its sum, which is of the entries, too.
void WriteHeader(const Header& header, char* head) {
  std::memcpy(head, &header, sizeof(header));
  const std::uint32_t sum = HeadSum(head, header.parts);
  std::memcpy(head + offsetof(Header, head_sum), &sum, sizeof(sum));
}

// CRC-32C of the CRC-32Cs of three stripes of whole words, the last of which has what is over. The instruction takes
// three cycles and one begins in each. Precondition: `size` is a multiple of the alignment.
std::uint32_t DataSum(const char* data, std::size_t size) {
  const std::size_t words = size / 8, stripe = words / 3;
  std::array<std::uint64_t, 3> sums{0xffffffffu, 0xffffffffu, 0xffffffffu};
  const auto add = [data](std::uint64_t* sum, std::size_t word) {
    std::uint64_t value;
    std::memcpy(&value, data + word * 8, 8);
    *sum = _mm_crc32_u64(*sum, value);
  };
  for (std::size_t i = 0; i < stripe; ++i) {
    add(&sums[0], i);
    add(&sums[1], stripe + i);
    add(&sums[2], 2 * stripe + i);
  }
  for (std::size_t i = 3 * stripe; i < words; ++i) add(&sums[2], i);
  for (std::uint64_t& sum : sums) sum = static_cast<std::uint32_t>(~sum);
  return Crc32c(reinterpret_cast<const char*>(sums.data()), sizeof(sums));
}

// Bytes of an entry's part, or kNoSize: it is none, or one so large that nobody has it.
std::size_t PartBytes(const Entry& entry) {
  std::size_t bytes = SizeOf(entry.type);
  if (bytes == 0 || entry.rank > kMostDims) return kNoSize;
  if (std::any_of(entry.zero.begin(), entry.zero.end(), [](std::uint8_t each) { return each != 0; })) return kNoSize;
  bool is_empty = false;
  for (int i = 0; i < kMostDims; ++i) {
    const std::uint64_t dim = entry.dims[i];
    if (i >= entry.rank) {
      if (dim != 0) return kNoSize;
      continue;
    }
    is_empty |= dim == 0;
    if (dim > static_cast<std::uint64_t>(INT64_MAX)) return kNoSize;
    // Also of an empty part: its other dimensions are multiplied by whoever reads them.
    if (__builtin_mul_overflow(bytes, std::max<std::uint64_t>(dim, 1), &bytes)) return kNoSize;
    if (bytes > static_cast<std::size_t>(INT64_MAX)) return kNoSize;
  }
  return is_empty ? 0 : bytes;
}

ParsedMessage Wrong(std::string what) { return {{}, std::move(what)}; }

}  // namespace

std::size_t SizeOf(PartType type) {
  switch (type) {
    case PartType::kBool:
    case PartType::kInt8:
    case PartType::kUint8:
      return 1;
    case PartType::kBfloat16:
    case PartType::kFloat16:
    case PartType::kInt16:
    case PartType::kUint16:
      return 2;
    case PartType::kFloat32:
    case PartType::kInt32:
    case PartType::kUint32:
      return 4;
    case PartType::kFloat64:
    case PartType::kInt64:
    case PartType::kUint64:
      return 8;
  }
  return 0;
}

void Narrow(const float* from, std::size_t count, std::uint16_t* to, const Parallel& parallel) {
  InPieces(count, kNumberCost, parallel, [from, to](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) to[i] = NearestBfloat16(from[i]);
  });
}

void Widen(const std::uint16_t* from, std::size_t count, float* to, const Parallel& parallel) {
  InPieces(count, kNumberCost, parallel, [from, to](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) to[i] = WidenedBfloat16(from[i]);
  });
}

std::size_t MessageBytes(std::span<const MessagePart> parts) {
  std::size_t bytes = HeadBytes(parts.size());
  for (const MessagePart& part : parts) bytes += Aligned(part.bytes);
  return bytes;
}

void WriteMessage(MessageKind kind, std::span<const MessagePart> parts, char* to, const Parallel& parallel) {
  Header header = HeaderOf(kind, parts);
  const std::size_t head = HeadBytes(parts.size());
  WriteEntries(parts, to);
  char* data = to + head;
  for (const MessagePart& part : parts) {
    if (part.narrows) {
      Narrow(reinterpret_cast<const float*>(part.data), part.bytes / 2, reinterpret_cast<std::uint16_t*>(data),
             parallel);
    } else {
      InPieces(part.bytes, kByteCost, parallel, [&part, data](std::size_t first, std::size_t last) {
        std::memcpy(data + first, part.data + first, last - first);
      });
    }
    std::memset(data + part.bytes, 0, Aligned(part.bytes) - part.bytes);
    data += Aligned(part.bytes);
  }
  header.data_sum = DataSum(to + head, header.length - head);
  WriteHeader(header, to);
}

std::string MessageHead(MessageKind kind, std::span<const MessagePart> parts) {
  Header header = HeaderOf(kind, parts);
  header.guard = Guard::kCarrier;
  std::string head(HeadBytes(parts.size()), 0);
  WriteEntries(parts, head.data());
  WriteHeader(header, head.data());
  return head;
}

ParsedMessage ParseMessage(MessageKind kind, const char* bytes, std::size_t size, Guard guard) {
  Header header;
  if (size < sizeof(header)) return Wrong("is cut off");
  std::memcpy(&header, bytes, sizeof(header));
  if (header.magic != Header{}.magic) return Wrong("is none of afo");
  if (header.version != kMessageVersion) {
    return Wrong("has version " + std::to_string(header.version) + " where this program reads " +
                 std::to_string(kMessageVersion) + ": all containers of a job need the same version of afo");
  }
  if (header.kind != static_cast<std::uint16_t>(kind)) return Wrong("is of another kind");
  if (header.length != size || header.parts > kMostParts || HeadBytes(header.parts) > size) {
    return Wrong("has another length than it says");
  }
  if (header.guard != guard || header.head_sum != HeadSum(bytes, header.parts))
    return Wrong("is damaged in its header");
  std::size_t at = HeadBytes(header.parts);
  const bool sums = guard == Guard::kSum;
  if (header.data_sum != (sums ? DataSum(bytes + at, (size - at) & ~(kMessageAlignment - 1)) : 0)) {
    return Wrong("is damaged");
  }
  ParsedMessage found;
  for (std::size_t i = 0; i < header.parts; ++i) {
    Entry entry;
    std::memcpy(&entry, bytes + sizeof(Header) + i * sizeof(Entry), sizeof(entry));
    const std::size_t part = PartBytes(entry);
    if (part > size - at || Aligned(part) > size - at) return Wrong("has a part that is longer than it");
    found.parts.push_back({entry.type, {entry.dims.begin(), entry.dims.begin() + entry.rank}, bytes + at, part});
    at += Aligned(part);
  }
  if (at != size) return Wrong("is longer than its parts");
  return found;
}

}  // namespace afo
