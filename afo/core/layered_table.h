// A served table as changes over another one: a version of a model that has a few rows of its own, and shares the
// others with the versions that it stands on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "afo/core/indexed_table.h"
#include "afo/core/served_table.h"

namespace afo {

// Thread-safe.
class LayeredTable : public ServedRows {
 public:
  // The newest changes first, the whole table last; all of one width. The newest one says what a key has that is not
  // there.
  explicit LayeredTable(std::vector<std::shared_ptr<const IndexedTable>> layers);

  [[nodiscard]] std::string Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const override;
  const ServedHeader& header() const override { return layers_.front()->header(); }
  std::size_t bytes() const override;
  std::vector<ServedPart> parts() const override;

 private:
  const std::vector<std::shared_ptr<const IndexedTable>> layers_;
};

}  // namespace afo
