#include "afo/core/served_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "afo/core/bfloat16.h"
#include "afo/core/snapshot.h"
#include "afo/core/table.h"

namespace afo {
namespace {

constexpr char kMagic[] = "AFOROWS1";
// Keys whose memory is asked for at a time.
constexpr std::int64_t kBatch = 32;
constexpr std::size_t kCacheLine = 64;

// What is behind the magic.
struct RawHeader {
  std::uint32_t type;
  std::uint32_t dim;
  std::uint64_t count;
  float absent;
  std::uint32_t checksum;
};
static_assert(sizeof(RawHeader) + sizeof(kMagic) - 1 == kServedHeaderBytes, "the header has no gaps");

template <typename T>
T At(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

std::size_t WeightBytes(RowType type) {
  return type == RowType::kFloat32 ? sizeof(float) : type == RowType::kBfloat16 ? sizeof(std::uint16_t) : 1;
}

void FromBfloat16(const std::uint8_t* from, std::int32_t dim, float* to) {
  for (std::int32_t i = 0; i < dim; ++i) {
    std::uint16_t half;
    std::memcpy(&half, from + 2 * i, sizeof(half));
    to[i] = WidenedBfloat16(half);
  }
}

void FromInt8(const std::uint8_t* from, std::int32_t dim, float* to) {
  float scale;
  std::memcpy(&scale, from, sizeof(scale));
  const std::uint8_t* codes = from + sizeof(scale);
  for (std::int32_t i = 0; i < dim; ++i) to[i] = static_cast<float>(static_cast<std::int8_t>(codes[i])) * scale;
}

}  // namespace

std::size_t ServedHeader::stride() const {
  const std::size_t scale = type == RowType::kInt8 ? sizeof(float) : 0;
  return sizeof(std::int64_t) + scale + static_cast<std::size_t>(dim) * WeightBytes(type);
}

std::string WrongShape(std::uint32_t type, std::uint32_t dim, std::uint64_t count) {
  if (type > static_cast<std::uint32_t>(RowType::kInt8)) return "it has rows of an unknown type";
  if (dim < 1 || dim > static_cast<std::uint32_t>(kMaxDim)) return "its rows have an impossible width";
  return count < kNoRow ? "" : "it has more rows than a table can";
}

ParsedServedHeader ParseServedHeader(const char* bytes, std::uint64_t size) {
  const auto wrong = [](std::string words) { return ParsedServedHeader{.header = {}, .wrong = std::move(words)}; };
  if (size < kServedHeaderBytes + kServedTrailerBytes) return wrong("it is shorter than an empty table");
  if (std::memcmp(bytes, kMagic, sizeof(kMagic) - 1) != 0) return wrong("it does not begin as a table of afo does");
  const RawHeader raw = At<RawHeader>(bytes + sizeof(kMagic) - 1);
  if (raw.checksum != Crc32c(bytes, kServedHeaderBytes - 4)) return wrong("its header is damaged");
  if (std::string found = WrongShape(raw.type, raw.dim, raw.count); !found.empty()) return wrong(std::move(found));
  const ServedHeader header{.type = static_cast<RowType>(raw.type),
                            .dim = static_cast<std::int32_t>(raw.dim),
                            .count = raw.count,
                            .absent = raw.absent};
  // No overflow: a row has less than 2^15 bytes.
  const std::uint64_t whole = kServedHeaderBytes + header.count * header.stride() + kServedTrailerBytes;
  if (size != whole) {
    return wrong("it has " + std::to_string(size) + " bytes, and its header speaks of " + std::to_string(whole));
  }
  return {.header = header, .wrong = ""};
}

void DecodeRow(const ServedHeader& header, const std::uint8_t* row, float* weights) {
  if (row == nullptr) return static_cast<void>(std::fill_n(weights, header.dim, header.absent));
  const std::uint8_t* from = row + sizeof(std::int64_t);
  switch (header.type) {
    case RowType::kFloat32:
      std::memcpy(weights, from, static_cast<std::size_t>(header.dim) * sizeof(float));
      return;
    case RowType::kBfloat16:
      return FromBfloat16(from, header.dim, weights);
    case RowType::kInt8:
      return FromInt8(from, header.dim, weights);
  }
}

void FetchRow(const std::uint8_t* row, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(row + at);
  __builtin_prefetch(row + bytes - 1);
}

bool ServedTable::Reserve() {
  if (!pages_.Grow(std::max<std::size_t>(row_bytes(), 1))) return false;
  pages_.Populate(row_bytes());
  return index_.Prepare(static_cast<std::size_t>(header_.count));
}

std::string ServedTable::Build(std::uint32_t checksum) {
  assert(index_.size() == 0);
  if (Crc32c(rows(), row_bytes()) != checksum) return "its rows are damaged";
  const auto count = static_cast<std::uint32_t>(header_.count);
  for (std::uint32_t row = 0; row < count; ++row) {
    if (row + kBatch < count) __builtin_prefetch(index_.home(HashOf(key(row + static_cast<std::uint32_t>(kBatch)))));
    if (row > 0 && key(row) <= key(row - 1)) return "its keys do not rise";
    index_.Insert(HashOf(key(row)), row);
  }
  return "";
}

std::string ServedTable::Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const {
  std::uint64_t hashes[kBatch];
  for (std::int64_t first = 0; first < count; first += kBatch) {
    const std::int64_t batch = std::min(kBatch, count - first);
    for (std::int64_t i = 0; i < batch; ++i) {
      hashes[i] = HashOf(keys[first + i]);
      __builtin_prefetch(index_.home(hashes[i]));
    }
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::uint32_t guess = index_.Guess(hashes[i]);
      if (guess != kNoRow) FetchRow(at(guess), stride_);
    }
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::uint32_t row = index_.Find(keys[first + i], hashes[i], *this);
      DecodeRow(header_, row == kNoRow ? nullptr : at(row), weights + (first + i) * header_.dim);
    }
  }
  return "";
}

}  // namespace afo
