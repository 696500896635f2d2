#include "afo/core/slot_map.h"

#include <cassert>
#include <utility>

namespace afo {
namespace {

// What is wrong with starts; empty where nothing is.
std::string ProblemOf(std::span<const std::int64_t> starts) {
  const auto many = static_cast<std::int64_t>(starts.size());
  if (many < 1 || many > kVirtualSlots) {
    return "a slot map has " + std::to_string(many) + " starts; give one for each server, 1 to " +
           std::to_string(kVirtualSlots);
  }
  if (starts[0] != 0) return "the first start of a slot map is " + std::to_string(starts[0]) + ", and must be 0";
  for (std::size_t i = 1; i < starts.size(); ++i) {
    if (starts[i] >= starts[i - 1] && starts[i] <= kVirtualSlots) continue;
    return "start " + std::to_string(i) + " of a slot map is " + std::to_string(starts[i]) + ", and must be " +
           std::to_string(starts[i - 1]) + ", which is the one before it, to " + std::to_string(kVirtualSlots);
  }
  return "";
}

std::vector<std::uint32_t> EqualStarts(std::uint32_t servers) {
  std::vector<std::uint32_t> starts(servers);
  for (std::uint64_t i = 0; i < servers; ++i) {
    starts[i] = static_cast<std::uint32_t>((i * kVirtualSlots + servers - 1) / servers);
  }
  return starts;
}

}  // namespace

SlotMap::SlotMap(std::vector<std::uint32_t> starts, std::int64_t version)
    : starts_(std::move(starts)),
      version_(version),
      is_equal_(starts_ == EqualStarts(static_cast<std::uint32_t>(starts_.size()))),
      owners_() {
  starts_.push_back(kVirtualSlots);
  std::uint32_t owner = 0;
  for (std::uint32_t block = 0; block < owners_.size(); ++block) {
    while (block << kBlockBits >= starts_[owner + 1]) ++owner;
    owners_[block] = static_cast<std::uint16_t>(owner);
  }
}

SlotMap SlotMap::EqualRanges(std::uint32_t servers) {
  assert(servers >= 1 && servers <= kVirtualSlots);
  return SlotMap(EqualStarts(servers), 0);
}

CheckedSlotMap SlotMap::FromStarts(std::span<const std::int64_t> starts, std::int64_t version) {
  std::string problem = ProblemOf(starts);
  if (problem.empty() && version < 0) {
    problem = "the version of a slot map is " + std::to_string(version) + ", and must be 0 or more";
  }
  if (!problem.empty()) return {.map = std::nullopt, .problem = std::move(problem)};
  return {.map = SlotMap({starts.begin(), starts.end()}, version), .problem = ""};
}

}  // namespace afo
