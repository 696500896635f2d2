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

// `values[i]`, `rows[i]` belong to parts[i]; `rows` may be empty.
Status LookupOrInsert(const std::vector<TablePart>& parts, const std::vector<float*>& values,
                      const std::vector<std::uint32_t*>& rows, const Parallel& parallel);
void Lookup(const std::vector<TablePart>& parts, const std::vector<float*>& values, const Parallel& parallel);

// `rows` and `counts` may be empty.
Status Apply(const std::vector<TablePart>& parts, const std::vector<const float*>& gradients,
             const std::vector<const std::uint32_t*>& rows, const std::vector<const std::uint32_t*>& counts,
             const StepInfo& info, const Parallel& parallel);

}  // namespace afo
