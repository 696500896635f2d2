#include "afo/psplus/budget.h"

#include <utility>

namespace afo::psplus {

bool Budget::Take(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  if (taken_ >= most_) return false;
  taken_ += bytes;
  return true;
}

void Budget::Add(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  taken_ += bytes;
}

void Budget::Give(std::size_t bytes) {
  std::vector<std::function<void()>> called;
  {
    std::lock_guard lock(mutex_);
    taken_ -= bytes;
    if (taken_ < most_) called.swap(waiting_);
  }
  for (const auto& call : called) call();
}

void Budget::WhenFree(std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (taken_ >= most_) {
      waiting_.push_back(std::move(call));
      return;
    }
  }
  call();
}

std::size_t Budget::taken() const {
  std::lock_guard lock(mutex_);
  return taken_;
}

}  // namespace afo::psplus
