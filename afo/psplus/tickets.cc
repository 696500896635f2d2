#include "afo/psplus/tickets.h"

#include <utility>

namespace afo::psplus {

// What goes is destroyed behind the lock: it may be large.
void Tickets::Keep(std::uint64_t sequence, std::shared_ptr<void> what) {
  std::shared_ptr<void> gone;
  std::lock_guard lock(mutex_);
  std::swap(kept_[sequence], what);
  if (kept_.size() <= most_) return;
  gone = std::move(kept_.begin()->second);
  kept_.erase(kept_.begin());
}

std::shared_ptr<void> Tickets::Find(std::uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(sequence);
  return found == kept_.end() ? nullptr : found->second;
}

std::shared_ptr<void> Tickets::Take(std::uint64_t sequence) {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(sequence);
  if (found == kept_.end()) return nullptr;
  std::shared_ptr<void> what = std::move(found->second);
  kept_.erase(found);
  return what;
}

void Tickets::Clear() {
  std::map<std::uint64_t, std::shared_ptr<void>> gone;
  std::lock_guard lock(mutex_);
  gone.swap(kept_);
}

}  // namespace afo::psplus
