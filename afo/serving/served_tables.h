// The native tables of a model that is served, and what it shares of them with other models of this process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/public/session.h"

namespace afo {

// Thread-safe. Has what it names for as long as the session has the tables.
class ServedTables {
 public:
  // Of a session whose graph is `graph`, once its tables are loaded; null where it has none.
  static absl::StatusOr<std::unique_ptr<ServedTables>> Find(tensorflow::Session* session,
                                                            const tensorflow::GraphDef& graph);
  ~ServedTables();
  ServedTables(const ServedTables&) = delete;
  ServedTables& operator=(const ServedTables&) = delete;

  // Files of the table with most of them: 1, all tables are whole.
  std::int64_t layers() const { return layers_; }
  // Of all files.
  std::int64_t bytes() const;
  // Of those that another model uses as well.
  std::int64_t shared_bytes() const;

 private:
  ServedTables(std::map<std::int64_t, std::int64_t> bytes, std::int64_t layers);

  // Of each file, by what tells it apart in this process.
  const std::map<std::int64_t, std::int64_t> bytes_;
  const std::int64_t layers_;
};

}  // namespace afo
