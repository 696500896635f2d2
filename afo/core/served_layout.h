// The file of a served table that can be looked up where it lies: the index is in it, and each block has a checksum, so
// that opening it reads next to nothing.
//
//   file   := header, 4096 B | row[rows] | removed key int64[removed] | zeros | Line[lines] | zeros
//             | CRC-32C of each block, 4 B each
//   header := "AFOROWS2" | type 4 B | dim 4 B | rows 8 B | removed 8 B | lines 8 B | parent 8 B | absent float32
//             | CRC-32C of all that is behind the blocks, 4 B | parent's path, ended by a zero | zeros
//             | CRC-32C of the 4092 B before, 4 B
//
// A row is as in served_table.h, and keys rise. What lies between the header and the checksums is cut into blocks of
// 4096 B, the zeros fill the last block of rows and of index. Lines are those of index.h: a number below `rows` is a
// row, one behind them a removed key, so that in the changes of another table one search tells a row, a key that is
// gone and one to ask the parent for. `parent` is its `id()`, 0 where there is none, and its path is relative to the
// file's directory. A file without lines is read by whoever does without them (served_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "afo/core/served_table.h"

namespace afo {

constexpr std::size_t kMostParentPath = 1024;

// A page of memory as well: who checks a block has what a fault brings.
constexpr std::size_t kBlockBytes = 4096;

struct ServedLayout {
  ServedHeader header;
  std::uint64_t removed = 0;
  std::uint64_t lines = 0;
  // A table of which this has the changes.
  std::uint64_t parent = 0;
  std::string parent_path = {};
  std::uint32_t sums_checksum = 0;
  std::uint32_t header_checksum = 0;

  bool is_whole() const { return parent == 0; }
  std::uint64_t index_at() const;
  std::uint64_t sums_at() const;
  std::uint64_t size() const { return sums_at() + blocks() * sizeof(std::uint32_t); }
  std::size_t blocks() const { return static_cast<std::size_t>((sums_at() - kBlockBytes) / kBlockBytes); }
  // Of the content: different for files that differ.
  std::uint64_t id() const { return std::uint64_t{header_checksum} << 32 | sums_checksum; }
};

struct ParsedServedLayout {
  ServedLayout layout;  // where nothing is wrong
  std::string wrong;    // '' where nothing is
};

// Whether these bytes, kServedHeaderBytes or more, begin such a file.
[[nodiscard]] bool HasBlocks(const char* bytes);

// Reads the header of a file of `size` bytes, of which kBlockBytes, or all if there are fewer, are at `bytes`.
[[nodiscard]] ParsedServedLayout ParseServedLayout(const char* bytes, std::uint64_t size);

// The header, which `header_checksum` then is that of.
std::string EncodeHeader(ServedLayout* layout);

// Checksums of blocks, of bytes that come in pieces of any size.
class BlockSums {
 public:
  void Add(const char* bytes, std::size_t size);
  // Fills the last block with zeros. Returns how many there are.
  std::size_t Fill();
  const std::vector<std::uint32_t>& sums() const { return sums_; }

 private:
  std::vector<std::uint32_t> sums_;
  std::uint32_t open_ = 0;
  // Bytes of the block that is not whole yet.
  std::size_t held_ = 0;
};

}  // namespace afo
