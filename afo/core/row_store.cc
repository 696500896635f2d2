#include "afo/core/row_store.h"

#include <algorithm>
#include <cassert>

namespace afo {
namespace {

constexpr std::size_t kFirstBytes = 4096;
// How far the pages run ahead of the rows: a part of what is there, so that a small table stays small.
constexpr std::size_t kLeastAhead = 16u << 10;
constexpr std::size_t kMostAhead = 4u << 20;

}  // namespace

bool RowStore::Reserve(std::size_t count) {
  if (count <= free_) return true;
  const std::size_t rows = end_ + (count - free_);
  if (rows >= kNoRow) return false;
  const std::size_t bytes = rows * stride_;
  if (bytes > pages_.size() && !pages_.Grow(std::max(bytes, std::max(kFirstBytes, pages_.size() * 2)))) return false;
  if (bytes > pages_.populated()) {
    pages_.Populate(bytes + std::min(std::max(bytes / 16, kLeastAhead), kMostAhead));
  }
  return true;
}

std::uint32_t RowStore::Take() {
  assert(free_ > 0 || (std::size_t{end_} + 1) * stride_ <= pages_.size());
  std::uint32_t row = end_;
  if (first_free_ != kNoRow) {
    row = first_free_;
    first_free_ = static_cast<std::uint32_t>(header(row)->key);
    --free_;
  } else {
    ++end_;
  }
  *header(row) = RowHeader{0, 0, 0};
  return row;
}

void RowStore::Free(std::uint32_t row) {
  assert(row < end_ && !header(row)->is_free());
  *header(row) = RowHeader{static_cast<std::int64_t>(first_free_), kFreeStep, 0};
  first_free_ = row;
  ++free_;
}

}  // namespace afo
