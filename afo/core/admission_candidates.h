// Keys of one shard that were seen and have no row yet: how often, and when last. 23 bytes each: rows without values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "afo/core/index.h"
#include "afo/core/row_store.h"

namespace afo {

// Not thread-safe: the shard's lock is held.
class Candidates {
 public:
  Candidates() : headers_(RowLayout{}) {}

  // Adds to a key's count and returns it; nothing when there is no memory.
  [[nodiscard]] std::optional<std::uint32_t> Count(std::int64_t key, std::uint32_t count, std::uint32_t step,
                                                   std::uint8_t epoch);
  // Overwrites; false when there is no memory.
  [[nodiscard]] bool Set(std::int64_t key, std::uint32_t count, std::uint32_t step, std::uint8_t epoch);
  void Drop(std::int64_t key);
  // Drops those last seen before `step`.
  void DropBefore(std::uint32_t step);

  // Headers by number, free ones among them.
  const RowHeader& header(std::uint32_t number) const { return *headers_.header(number); }
  std::uint32_t end() const { return headers_.end(); }

  std::size_t bytes() const { return index_.bytes() + headers_.bytes(); }

 private:
  std::uint32_t Find(std::int64_t key, std::uint64_t hash) const;
  RowHeader* FindOrInsert(std::int64_t key);
  void Free(std::uint32_t number);

  Index index_;
  RowStore headers_;
};

}  // namespace afo
