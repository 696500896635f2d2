// Reading of a served table from its file, with the tables that it has the changes of.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "afo/core/served_table.h"
#include "tensorflow/core/platform/env.h"

namespace afo {

struct ServedTableOptions {
  // The rows stay in the file, which lookups read.
  bool in_file = false;
  // A local file is mapped and not copied into memory.
  bool stays_mapped = false;
};

// Errors name the file: DataLoss where it is damaged or is no table, NotFound where it or a parent is not there.
absl::StatusOr<std::shared_ptr<const ServedRows>> ReadServedTable(tensorflow::Env* env, const std::string& path,
                                                                  const ServedTableOptions& options);

}  // namespace afo
