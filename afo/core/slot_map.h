// Ownership of keys: which server holds which of the slots that keys are hashed to (hash.h).
//
// Server s owns the slots from starts[s] up to starts[s + 1], the last server those up to the end. So ranges lie in the
// order of the servers, and each slot has one owner. A range may be empty: a server that comes or goes owns no slots for
// a while. A map is never changed; another one of the same servers has another version.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afo/core/hash.h"

namespace afo {

// The slots from `first` up to `end`; all of them unless it is said otherwise. Invariant: first <= end <= kVirtualSlots.
struct SlotRange {
  std::uint32_t first = 0;
  std::uint32_t end = kVirtualSlots;

  bool Contains(std::uint64_t hash) const { return SlotOf(hash) - first < end - first; }
  bool Overlaps(const SlotRange& other) const { return std::max(first, other.first) < std::min(end, other.end); }

  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

struct CheckedSlotMap;

class SlotMap {
 public:
  // Ranges of nearly equal length: slot * servers / kVirtualSlots owns a slot. Precondition: 1 to kVirtualSlots servers.
  static SlotMap EqualRanges(std::uint32_t servers);
  // No map, and a sentence why, where the starts do not begin at 0, descend, or lie beyond the slots, or where there
  // are none or too many of them, or the version is negative.
  static CheckedSlotMap FromStarts(std::span<const std::int64_t> starts, std::int64_t version);

  std::uint32_t servers() const { return static_cast<std::uint32_t>(starts_.size()) - 1; }
  // Of a job's maps, in the order in which they were made; the first is 0.
  std::int64_t version() const { return version_; }

  // What `work` makes of a function (hash) -> owner, for loops over many keys: which kind of map it is costs a batch's
  // routing 3 %, and the table 6 %, if it is looked at for each key.
  template <typename Work>
  auto Visit(const Work& work) const {
    return is_equal_ ? work(EqualOwner{servers()}) : work(TableOwner{owners_.data(), starts_.data()});
  }
  std::uint32_t OwnerOf(std::uint64_t hash) const {
    return Visit([hash](const auto& owner_of) { return owner_of(hash); });
  }
  // Precondition, here and below: a server of this map.
  bool Owns(std::uint32_t server, std::uint64_t hash) const { return RangeOf(server).Contains(hash); }
  SlotRange RangeOf(std::uint32_t server) const {
    assert(server < servers());
    return {.first = starts_[server], .end = starts_[server + 1]};
  }

  friend bool operator==(const SlotMap&, const SlotMap&) = default;

 private:
  struct EqualOwner {
    std::uint32_t servers;
    std::uint32_t operator()(std::uint64_t hash) const { return SlotOf(hash) * servers >> kSlotBits; }
  };
  // A block of slots says the owner of its first one; ranges that end within the block, rarely one, are passed.
  struct TableOwner {
    const std::uint16_t* owners;
    const std::uint32_t* starts;
    std::uint32_t operator()(std::uint64_t hash) const {
      const std::uint32_t slot = SlotOf(hash);
      std::uint32_t owner = owners[slot >> kBlockBits];
      while (slot >= starts[owner + 1]) ++owner;
      return owner;
    }
  };

  // 2 KiB of blocks, which stay in the first-level cache.
  static constexpr std::size_t kBlocks = 1024;
  static constexpr int kBlockBits = 6;
  static_assert(kBlocks << kBlockBits == kVirtualSlots);

  SlotMap(std::vector<std::uint32_t> starts, std::int64_t version);

  std::vector<std::uint32_t> starts_;  // [servers + 1]; the last is kVirtualSlots, which ends every search
  std::int64_t version_;
  bool is_equal_;
  std::array<std::uint16_t, kBlocks> owners_;
};

struct CheckedSlotMap {
  std::optional<SlotMap> map;
  std::string problem;  // empty where there is a map
};

}  // namespace afo
