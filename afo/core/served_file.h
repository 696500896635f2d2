// A served table whose rows stay in their file (served_table.h and served_layout.h have its forms): each lookup reads
// the pieces that its keys would be in. In memory is the first key of each piece alone, 1/500 of the file of rows of 16
// weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "afo/core/served_table.h"

namespace afo {

struct ServedLayout;

// Reads `size` bytes at `offset` of a file to `to`. Returns what is wrong, or nothing. Called by many threads.
using ReadAt = std::function<std::string(std::uint64_t offset, char* to, std::size_t size)>;

// Thread-safe once `Build` has found nothing wrong.
class ServedFile : public ServedRows {
 public:
  // `rows_at`: where in the file the rows begin.
  ServedFile(const ServedHeader& header, std::uint64_t rows_at, ReadAt read);

  // Reads all rows once, whose checksum the file says is `checksum`, or which are checked by those of its blocks.
  // Returns what is wrong, or nothing. Once.
  [[nodiscard]] std::string Build(std::uint32_t checksum);
  [[nodiscard]] std::string Build(const ServedLayout& layout);

  [[nodiscard]] std::string Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const override;
  const ServedHeader& header() const override { return header_; }
  std::size_t bytes() const override { return firsts_.size() * sizeof(std::int64_t); }
  std::vector<ServedPart> parts() const override { return {{this, rows_at_ + header_.count * stride_}}; }

 private:
  // How many rows are in piece `piece`.
  std::size_t RowsOf(std::size_t piece) const;
  std::string ReadRows(std::uint64_t first, std::size_t count, std::vector<char>* rows) const;
  // Hands all bytes of rows to `take`, and remembers the first key of each piece.
  std::string Scan(const std::function<void(const char* bytes, std::size_t size)>& take);

  ServedHeader header_;
  std::uint64_t rows_at_;
  ReadAt read_;
  std::size_t stride_;
  std::size_t rows_of_piece_;
  // The first key of each piece.
  std::vector<std::int64_t> firsts_;
  bool rise_ = true;
};

}  // namespace afo
