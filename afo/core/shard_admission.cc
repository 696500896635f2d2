// Which keys of a shard get a row.

#include "afo/core/shard.h"

namespace afo {

bool Shard::CountAbsent(const ShardKeys& keys, const std::uint32_t* counts, const StepInfo& info, std::uint32_t* found) {
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    if (found[i] != kNoRow) continue;
    const std::uint32_t place = keys.positions[i];
    // Its number may not have been known: another worker's batch admitted it since the lookup.
    found[i] = RowOf(keys.keys[place]);
    if (found[i] != kNoRow) continue;
    if (!CountOne(keys.keys[place], counts == nullptr ? 1 : counts[place], info.step)) return false;
  }
  return true;
}

bool Shard::CountOne(std::int64_t key, std::uint32_t count, std::uint32_t step) {
  const AdmissionOptions& admission = spec_.options.admission;
  const auto epoch = spec_.row_epoch();
  std::int64_t seen = count;
  if (admission.blooms()) {
    seen = bloom_.Count(HashOf(key), count, epoch);
    if (seen < admission.min_count) return true;
  } else if (admission.remembers()) {
    const std::optional<std::uint32_t> counted = candidates_.Count(key, count, step, epoch);
    if (!counted.has_value()) return false;
    seen = *counted;
    if (seen < admission.min_count) return true;
  } else if (!AdmitByChance(admission, key, step, count)) {
    return true;
  }
  if (!Reserve(1)) return false;
  RowHeader* header = rows_.header(FindOrInsert(key));
  header->step = step;
  header->set_counters(static_cast<std::uint64_t>(seen), epoch);
  candidates_.Drop(key);
  return true;
}

}  // namespace afo
