// Lookups and updates of a batch over many tables at once.
#pragma once

#include <cstdint>
#include <vector>

#include "afo/core/parallel.h"
#include "afo/core/table.h"

namespace afo {

// What a batch asks of one table. The arrays are the caller's; see `Table` for what they hold.
struct TablePart {
  Table* table;
  const std::int64_t* keys;
  std::int64_t count;
};

// `to[i]` and `of[i]` belong to parts[i].
Status LookupOrInsert(const std::vector<TablePart>& parts, const std::vector<LookupOutput>& to,
                      const Parallel& parallel);
void Lookup(const std::vector<TablePart>& parts, const std::vector<LookupOutput>& to, const Parallel& parallel);
Status Apply(const std::vector<TablePart>& parts, const std::vector<RowGradients>& of, const StepInfo& info,
             const Parallel& parallel);

}  // namespace afo
