// Blocks of a table's rows as bytes, one after another: what files of a checkpoint hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "afo/core/failure.h"
#include "afo/core/table.h"

namespace afo {

// The rows of shards `part`, `part` + `parts` and so on. since: an epoch, or -1 for all rows.
struct BlockRange {
  std::int64_t part = 0;
  std::int64_t parts = 1;
  std::int64_t bytes = 0;  // of a block, about
  std::int64_t since = kAllEpochs;
};

struct NextBlock {
  std::string bytes;      // empty where there is nothing to write
  std::int64_t next = 0;  // the cursor of the following one, -1 at the end
};

// cursor: 0, then the `next` of the last call.
Failure ExportBlock(const Table& table, const BlockRange& range, std::int64_t cursor, NextBlock* block);

// The slots of one server (afo/core/slot_map.h), as somebody says.
struct ImportedSlots {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

// Removes and overwrites what a block names of the slots that are `owned`: so many `rows`. `saved`: of the server that
// wrote the block; a key of another one is damage, for who reads this server's rows would never see it. weights_only:
// the block has none of the optimizer's slots; they begin as those of a new row with these weights.
Failure ImportBlock(Table& table, std::string_view bytes, bool weights_only, const ImportedSlots& owned,
                    const ImportedSlots& saved, std::int64_t* rows);

}  // namespace afo
