// Which keys of a table get a row.

#include "afo/core/table.h"

namespace afo {

bool Table::CountAbsent(Shard& shard, const std::uint32_t* positions, std::uint32_t count, const std::int64_t* keys,
                        const std::uint32_t* counts, const StepInfo& info, std::uint32_t* found) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (found[i] != kNoRow) continue;
    const std::uint32_t place = positions[i];
    // Its number may not have been known: another worker's batch admitted it since the lookup.
    found[i] = RowOf(shard, keys[place]);
    if (found[i] != kNoRow) continue;
    if (!CountOne(shard, keys[place], counts == nullptr ? 1 : counts[place], info.step)) return false;
  }
  return true;
}

bool Table::CountOne(Shard& shard, std::int64_t key, std::uint32_t count, std::uint32_t step) {
  const AdmissionOptions& admission = options_.admission;
  const auto epoch = static_cast<std::uint8_t>(epoch_.load(std::memory_order_relaxed));
  std::int64_t seen = count;
  if (admission.blooms()) {
    seen = shard.bloom.Count(HashOf(key), count, epoch);
    if (seen < admission.min_count) return true;
  } else if (admission.remembers()) {
    const std::optional<std::uint32_t> counted = shard.candidates.Count(key, count, step, epoch);
    if (!counted.has_value()) return false;
    seen = *counted;
    if (seen < admission.min_count) return true;
  } else if (!AdmitByChance(admission, key, step, count)) {
    return true;
  }
  if (!Reserve(shard, 1)) return false;
  RowHeader* header = shard.rows.header(FindOrInsert(shard, key));
  header->step = step;
  header->set_counters(static_cast<std::uint64_t>(seen), epoch);
  shard.candidates.Drop(key);
  return true;
}

}  // namespace afo
