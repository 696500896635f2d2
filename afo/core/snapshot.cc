#include "afo/core/snapshot.h"

#include <nmmintrin.h>

#include <cstring>

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

// False where it is no block.
bool KindOf(std::uint32_t magic, BlockKind* kind) {
  for (const BlockKind each : {BlockKind::kRows, BlockKind::kCandidates, BlockKind::kCells}) {
    if (magic != MagicOf(each)) continue;
    *kind = each;
    return true;
  }
  return false;
}

bool IsWidth(BlockKind kind, std::uint32_t floats, std::uint32_t of_rows) {
  if (kind == BlockKind::kCells) return true;
  return floats == (kind == BlockKind::kRows ? of_rows : 0);
}

template <typename T>
void Append(const std::vector<T>& values, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
const char* Take(const char* from, std::uint64_t count, std::vector<T>* values) {
  values->resize(count);
  if (count > 0) std::memcpy(values->data(), from, count * sizeof(T));
  return from + count * sizeof(T);
}

}  // namespace

std::uint32_t Crc32c(const char* data, std::size_t size) {
  std::uint64_t sum = 0xffffffffu;
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

void Encode(const RowBlock& block, std::string* bytes) {
  const std::size_t start = bytes->size();
  const Header header{MagicOf(block.kind), block.floats, block.keys.size(), block.removed.size()};
  bytes->reserve(start + kHeader + kSum + block.removed.size() * 8 +
                 block.keys.size() * (kLeastRow + block.floats * sizeof(float)));
  bytes->append(reinterpret_cast<const char*>(&header), kHeader);
  Append(block.removed, bytes);
  Append(block.keys, bytes);
  Append(block.steps, bytes);
  Append(block.frequencies, bytes);
  Append(block.values, bytes);
  const std::uint32_t sum = Crc32c(bytes->data() + start, bytes->size() - start);
  bytes->append(reinterpret_cast<const char*>(&sum), kSum);
}

BlockError Decode(const char* data, std::size_t size, std::uint32_t floats, RowBlock* block, std::size_t* used) {
  if (size < kHeader + kSum) return BlockError::kShort;
  Header header;
  std::memcpy(&header, data, kHeader);
  BlockKind kind;
  if (!KindOf(header.magic, &kind)) return BlockError::kNoBlock;
  const std::uint64_t left = size - kHeader - kSum;
  const std::uint64_t row = kLeastRow + std::uint64_t{header.floats} * sizeof(float);
  if (header.removed > left / 8 || header.rows > left / row) return BlockError::kShort;
  const std::uint64_t body = header.removed * 8 + header.rows * row;
  if (body > left) return BlockError::kShort;
  std::uint32_t sum;
  std::memcpy(&sum, data + kHeader + body, kSum);
  if (sum != Crc32c(data, kHeader + body)) return BlockError::kBadSum;
  // After the sum: a damaged width is damage, and not another table.
  if (!IsWidth(kind, header.floats, floats)) return BlockError::kOtherWidth;
  block->kind = kind;
  block->floats = header.floats;
  const char* at = Take(data + kHeader, header.removed, &block->removed);
  at = Take(at, header.rows, &block->keys);
  at = Take(at, header.rows, &block->steps);
  at = Take(at, header.rows, &block->frequencies);
  Take(at, header.rows * header.floats, &block->values);
  *used = kHeader + body + kSum;
  return BlockError::kNone;
}

}  // namespace afo
