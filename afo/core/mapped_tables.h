// Tables of this process that lie in local files: opened at once, and the same table for all that open the same file.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "afo/core/indexed_table.h"
#include "afo/core/mapped_file.h"

namespace afo {

enum class Placement {
  // Answers from the mapped file until all of it was copied into memory, in huge pages.
  kPrivate,
  // Stays mapped: processes of a machine share its pages.
  kShared,
};

struct OpenedTable {
  std::shared_ptr<const IndexedTable> table;  // null: something is wrong, or the system maps no such file
  std::string wrong;                          // '' where nothing is
};

// `layout`: of the header of `file`. `report`: told later, by another thread, what is wrong with bytes that nobody
// asked for yet, or why the table stays in its file.
[[nodiscard]] OpenedTable OpenTable(const std::shared_ptr<MappedFile>& file, const std::string& path,
                                    const ServedLayout& layout, Placement placement,
                                    std::function<void(const std::string&)> report);

}  // namespace afo
