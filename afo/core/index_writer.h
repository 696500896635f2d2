// Writes the lines of an index (packed_line.h) into a file, of any number of keys in bounded memory.
//
// Lines are filled a window at a time. Where they are more than one window, what is put waits behind the place of the
// lines in the same file, in pieces of the window that it goes to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "afo/core/packed_line.h"

namespace afo {

// A file that is written and read back. The functions return the system's number of what is wrong, 0: nothing.
struct OpenFile {
  int number;

  [[nodiscard]] int Write(std::uint64_t offset, const void* from, std::size_t size) const;
  // EIO where the file ends before.
  [[nodiscard]] int Read(std::uint64_t offset, void* to, std::size_t size) const;
  [[nodiscard]] int Cut(std::uint64_t size) const;
};

class IndexWriter {
 public:
  // `lines` of them from byte `at` of `file` on, whose end is behind there at most; `window`: lines in memory at a
  // time.
  IndexWriter(OpenFile file, std::uint64_t at, const PackedShape& shape, std::uint32_t lines, std::uint32_t window);

  // Precondition: `lines` were `shape.LinesFor(rows)` or more. Returns the system's number, as `Finish` does.
  [[nodiscard]] int Put(std::uint64_t hash, std::uint32_t row);
  // Writes all lines, and leaves nothing behind them.
  [[nodiscard]] int Finish();

 private:
  struct Entry {
    std::uint32_t home;
    std::uint32_t row;
    std::uint32_t tag;
  };
  struct Waiting {
    std::vector<Entry> entries;
    // Of full pieces in the file.
    std::vector<std::uint64_t> pieces;
  };

  std::uint64_t offset_of(std::size_t window) const;
  std::size_t lines_of(std::size_t window) const;
  [[nodiscard]] int Fill(std::size_t window);
  // Into the first free place of a window from `line` on; what finds none is carried to the next.
  void Place(std::size_t lines, std::size_t line, const Entry& entry);
  [[nodiscard]] int PlaceCarried(std::size_t window);

  const OpenFile file_;
  const std::uint64_t at_;
  const PackedShape shape_;
  const std::uint32_t lines_, window_;
  std::uint64_t end_;
  std::vector<Waiting> waiting_;
  std::vector<PackedLine> filled_;
  std::vector<Entry> carried_;
};

}  // namespace afo
