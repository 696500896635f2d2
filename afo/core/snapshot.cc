#include "afo/core/snapshot.h"

#include <nmmintrin.h>

#include <cstring>
#include <optional>

namespace afo {
namespace {

constexpr std::size_t kHeader = 24;
constexpr std::size_t kSum = 4;
// A row of the narrowest kind: key, step, frequency. Bounds what a header may claim before anything is multiplied.
constexpr std::uint64_t kLeastRow = 16;

struct Header {
  std::uint32_t magic;
  std::uint32_t floats;
  std::uint64_t rows;
  std::uint64_t removed;
};
static_assert(sizeof(Header) == kHeader, "the header has no gaps");

// "afo1", "afo2", "afo4": no bit that is another makes one of another.
constexpr std::uint32_t MagicOf(BlockKind kind) { return 0x306f6661 + (1u << 24 << static_cast<std::uint32_t>(kind)); }

// Nothing where it is no block.
std::optional<BlockKind> KindOf(std::uint32_t magic) {
  for (const BlockKind each : {BlockKind::kRows, BlockKind::kCandidates, BlockKind::kCells}) {
    if (magic == MagicOf(each)) return each;
  }
  return std::nullopt;
}

bool IsWidth(BlockKind kind, std::uint32_t floats, std::uint32_t of_rows) {
  if (kind == BlockKind::kCells) return true;
  return floats == (kind == BlockKind::kRows ? of_rows : 0);
}

template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Arrays that lie one behind the other.
class ArrayReader {
 public:
  explicit ArrayReader(const char* at) : at_(at) {}

  template <typename T>
  std::vector<T> Take(std::uint64_t count) {
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return values;
  }

 private:
  const char* at_;
};

}  // namespace

std::uint32_t Crc32c(const char* data, std::size_t size, std::uint32_t before) {
  std::uint64_t sum = ~before;
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, data + i, 8);
    sum = _mm_crc32_u64(sum, word);
  }
  auto narrow = static_cast<std::uint32_t>(sum);
  for (; i < size; ++i) narrow = _mm_crc32_u8(narrow, static_cast<std::uint8_t>(data[i]));
  return ~narrow;
}

std::string Encode(const RowBlock& block) {
  const Header header{MagicOf(block.kind), block.floats, block.keys.size(), block.removed.size()};
  std::string bytes;
  bytes.reserve(kHeader + kSum + block.removed.size() * 8 +
                block.keys.size() * (kLeastRow + block.floats * sizeof(float)));
  bytes.append(reinterpret_cast<const char*>(&header), kHeader);
  bytes.append(BytesOf(block.removed));
  bytes.append(BytesOf(block.keys));
  bytes.append(BytesOf(block.steps));
  bytes.append(BytesOf(block.frequencies));
  bytes.append(BytesOf(block.values));
  const std::uint32_t sum = Crc32c(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&sum), kSum);
  return bytes;
}

DecodedBlock Decode(std::string_view bytes, std::uint32_t floats) {
  const auto failed = [](BlockError error) { return DecodedBlock{.error = error, .block = {}, .bytes = 0}; };
  if (bytes.size() < kHeader + kSum) return failed(BlockError::kShort);
  Header header;
  std::memcpy(&header, bytes.data(), kHeader);
  const std::optional<BlockKind> kind = KindOf(header.magic);
  if (!kind.has_value()) return failed(BlockError::kNoBlock);
  const std::uint64_t left = bytes.size() - kHeader - kSum;
  const std::uint64_t row = kLeastRow + std::uint64_t{header.floats} * sizeof(float);
  if (header.removed > left / 8 || header.rows > left / row) return failed(BlockError::kShort);
  const std::uint64_t body = header.removed * 8 + header.rows * row;
  if (body > left) return failed(BlockError::kShort);
  std::uint32_t sum;
  std::memcpy(&sum, bytes.data() + kHeader + body, kSum);
  if (sum != Crc32c(bytes.data(), kHeader + body)) return failed(BlockError::kBadSum);
  // After the sum: a damaged width is damage, and not another table.
  if (!IsWidth(*kind, header.floats, floats)) return failed(BlockError::kOtherWidth);
  DecodedBlock decoded{.error = BlockError::kNone, .block = {}, .bytes = kHeader + body + kSum};
  RowBlock& block = decoded.block;
  ArrayReader reader(bytes.data() + kHeader);
  block.kind = *kind;
  block.floats = header.floats;
  block.removed = reader.Take<std::int64_t>(header.removed);
  block.keys = reader.Take<std::int64_t>(header.rows);
  block.steps = reader.Take<std::uint32_t>(header.rows);
  block.frequencies = reader.Take<std::uint32_t>(header.rows);
  block.values = reader.Take<float>(header.rows * header.floats);
  return decoded;
}

}  // namespace afo
