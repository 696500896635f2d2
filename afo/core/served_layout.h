// The file of a served table that can be looked up where it lies: the index is in it, and each block has a checksum, so
// that opening it reads next to nothing.
//
//   file   := header | row[rows] | removed key int64[removed] | zeros | line[lines] | CRC-32C of each block, 4 B each
//   header := "AFOROWS3" | type 4 B | dim 4 B | rows 8 B | removed 8 B | lines 8 B | parent 8 B | absent float32
//             | CRC-32C of all that is behind the lines, 4 B | parent's path, ended by a zero | zeros
//             | CRC-32C of the header before, 4 B
//
// A row is as in served_table.h, and keys rise. Zeros fill the header and what is before the lines to a multiple of
// 64 B. A block is what of 4096 B of the file, a page, lies between the header and the checksums: the first one begins
// behind the header, and the last one ends with the lines. Lines are those of packed_line.h, for numbers below
// `rows` + `removed`: one below `rows` is a row, one behind them a removed key, so that in the changes of another table
// one search tells a row, a key that is gone and one to ask the parent for. `parent` is its `id()`, 0 where there is
// none, and its path is relative to the file's directory. A file without lines is read by whoever does without them
// (served_file.h).
//
// "AFOROWS2" is the form before, which is still read, also below changes in this one: zeros fill header, rows and lines
// to a multiple of 4096 B each, and numbers in lines have 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "afo/core/packed_line.h"
#include "afo/core/served_table.h"

namespace afo {

constexpr std::size_t kMostParentPath = 1024;

// Of the shortest file.
constexpr std::size_t kLeastLayoutBytes = 64;

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
  // Whether it is AFOROWS2.
  bool is_padded = false;

  bool is_whole() const { return parent == 0; }
  PackedShape shape() const { return is_padded ? PackedShape(32) : PackedShape::Of(header.count + removed); }
  std::uint64_t rows_at() const;
  std::uint64_t rows_end() const;
  std::uint64_t index_at() const;
  std::uint64_t sums_at() const;
  std::uint64_t size() const { return sums_at() + blocks() * sizeof(std::uint32_t); }
  // Of the page of the file that the first block is in.
  std::size_t first_page() const { return static_cast<std::size_t>(rows_at() / kBlockBytes); }
  std::size_t blocks() const;
  // Of the content: different for files that differ.
  std::uint64_t id() const { return std::uint64_t{header_checksum} << 32 | sums_checksum; }
};

struct ParsedServedLayout {
  ServedLayout layout;  // where nothing is wrong
  std::string wrong;    // '' where nothing is
};

// Whether these bytes, kServedHeaderBytes or more, begin such a file, of either form.
[[nodiscard]] bool HasBlocks(const char* bytes);

// Reads the header of a file of `size` bytes, of which kBlockBytes, or all if there are fewer, are at `bytes`.
[[nodiscard]] ParsedServedLayout ParseServedLayout(const char* bytes, std::uint64_t size);

// The header, which `header_checksum` then is that of.
std::string EncodeHeader(ServedLayout* layout);

// Checksums of blocks, of bytes that come in pieces of any size.
class BlockSums {
 public:
  // `at`: where in the file the bytes begin.
  explicit BlockSums(std::uint64_t at) : held_(static_cast<std::size_t>(at % kBlockBytes)) {}
  void Add(const char* bytes, std::size_t size);
  // The last block ends here.
  void Finish();
  const std::vector<std::uint32_t>& sums() const { return sums_; }

 private:
  std::vector<std::uint32_t> sums_;
  std::uint32_t open_ = 0;
  // Bytes of the page whose block is not whole yet.
  std::size_t held_;
};

}  // namespace afo
