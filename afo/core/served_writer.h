// Makes a file of a served table (served_layout.h) of one that has the rows and removed keys alone.
#pragma once

#include <cstdint>
#include <string>

#include "afo/core/index_writer.h"
#include "afo/core/served_layout.h"

namespace afo {

struct Sealing {
  ServedHeader header;
  // Of the rows as they were written, and of the removed keys behind them.
  std::uint32_t rows_checksum = 0;
  // Of the changes of a table (served_layout.h).
  std::uint64_t removed = 0;
  std::uint64_t parent = 0;
  std::string parent_path = {};
  // Without an index a file can only be read in place.
  bool has_index = true;
  // Lines of the index in memory at a time: 64 MiB.
  std::uint32_t window = 1u << 20;
};

struct [[nodiscard]] Sealed {
  int error = 0;      // of the system
  std::string wrong;  // with the rows; '' where nothing is
};

// The rows, and behind them the removed keys, are in `file` from where the header will end (`ServedLayout::rows_at`)
// on, and nothing is behind those. The header is written last: what is left where something is wrong is no table.
Sealed Seal(OpenFile file, const Sealing& sealing);

}  // namespace afo
