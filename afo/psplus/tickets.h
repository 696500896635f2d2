// What a service keeps of a client between requests: what belongs to one that was answered, by its sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace afo::psplus {

// Thread-safe. Goes with the client, and when the store gets another version.
class Tickets {
 public:
  explicit Tickets(std::size_t most) : most_(most) {}

  // Of more than `most` the one of the lowest sequence goes.
  void Keep(std::uint64_t sequence, std::shared_ptr<void> what);
  // Nothing where it is not there any more.
  std::shared_ptr<void> Find(std::uint64_t sequence) const;
  // Finds it and keeps it no longer.
  std::shared_ptr<void> Take(std::uint64_t sequence);
  void Clear();

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<void>> kept_;
};

}  // namespace afo::psplus
