// Rows on their way to a checkpoint and back: a block of bytes that says how long it is and whether it is whole.
//
//   block := { magic u32 | floats u32 | rows u64 | removed u64 | removed keys i64[] | keys i64[] | steps u32[]
//              | frequencies u32[] | values f32[rows][floats] | crc32c u32 of all before }, little-endian
//
// `floats` counts weights and slots of a row. What a filter of keys knows is in blocks of other magics: keys that are not
// admitted yet, as rows without floats, and cells of a counting Bloom filter, whose values are bytes. A file is blocks,
// one behind the other; whoever reads them may have cut or changed bytes before him, so a block is believed only after
// its length and its checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace afo {

enum class BlockKind : std::uint32_t { kRows, kCandidates, kCells };

struct RowBlock {
  BlockKind kind = BlockKind::kRows;
  std::uint32_t floats = 0;
  // Keys that are gone since the checkpoint that a delta stands on. They count as removed before the rows below come.
  std::vector<std::int64_t> removed;
  std::vector<std::int64_t> keys;
  std::vector<std::uint32_t> steps;
  std::vector<std::uint32_t> frequencies;
  std::vector<float> values;

  bool empty() const { return keys.empty() && removed.empty(); }
  bool operator==(const RowBlock&) const = default;
};

std::string Encode(const RowBlock& block);

enum class BlockError { kNone, kShort, kNoBlock, kBadSum, kOtherWidth };

struct [[nodiscard]] DecodedBlock {
  BlockError error = BlockError::kNone;
  RowBlock block;         // empty unless `error` is kNone
  std::size_t bytes = 0;  // how long it was
};

// Reads the block at the start of `bytes`. `floats`: what the table's rows have; another width of rows is an error.
DecodedBlock Decode(std::string_view bytes, std::uint32_t floats);

// CRC-32C (Castagnoli) of `size` bytes, as RFC 3720 has it. `before`: that of the bytes in front of them.
std::uint32_t Crc32c(const char* data, std::size_t size, std::uint32_t before = 0);

}  // namespace afo
