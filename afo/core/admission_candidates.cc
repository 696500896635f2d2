#include "afo/core/admission_candidates.h"

#include <algorithm>

#include "afo/core/hash.h"

namespace afo {

std::uint32_t Candidates::Find(std::int64_t key, std::uint64_t hash) const {
  return index_.bytes() == 0 ? kNoRow : index_.Find(key, hash, headers_);
}

RowHeader* Candidates::FindOrInsert(std::int64_t key) {
  const std::uint64_t hash = HashOf(key);
  std::uint32_t number = Find(key, hash);
  if (number == kNoRow) {
    if (!headers_.Reserve(1) || !index_.Reserve(1, headers_)) return nullptr;
    number = headers_.Take();
    headers_.header(number)->key = key;
    index_.Insert(hash, number);
  }
  return headers_.header(number);
}

std::optional<std::uint32_t> Candidates::Count(std::int64_t key, std::uint32_t count, std::uint32_t step,
                                               std::uint8_t epoch) {
  RowHeader* header = FindOrInsert(key);
  if (header == nullptr) return std::nullopt;
  header->step = std::max(header->step, step);
  header->set_counters(std::uint64_t{header->frequency()} + count, epoch);
  return header->frequency();
}

bool Candidates::Set(std::int64_t key, std::uint32_t count, std::uint32_t step, std::uint8_t epoch) {
  RowHeader* header = FindOrInsert(key);
  if (header == nullptr) return false;
  header->step = std::min(step, kFreeStep - 1);
  header->set_counters(count, epoch);
  return true;
}

void Candidates::Drop(std::int64_t key) {
  const std::uint32_t number = Find(key, HashOf(key));
  if (number != kNoRow) Free(number);
}

void Candidates::DropBefore(std::uint32_t step) {
  for (std::uint32_t number = 0; number < end(); ++number) {
    if (!header(number).is_free() && header(number).step < step) Free(number);
  }
}

void Candidates::Free(std::uint32_t number) {
  index_.Remove(HashOf(header(number).key), number);
  headers_.Free(number);
}

}  // namespace afo
