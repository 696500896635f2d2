// A bound on bytes that several threads share: who finds it reached is called once there is room.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

namespace afo::psplus {

// Thread-safe. A taker is let in while less than `most` is taken, whatever its size: so large ones do not starve, and at
// most one of them is beyond the bound.
class Budget {
 public:
  explicit Budget(std::size_t most) : most_(most) {}

  [[nodiscard]] bool Take(std::size_t bytes);
  // Also beyond the bound: of what is there already.
  void Add(std::size_t bytes);
  void Give(std::size_t bytes);
  // Calls it once: now where there is room, else on the thread that gives some back. It must not come back here.
  void WhenFree(std::function<void()> call);
  std::size_t taken() const;

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::size_t taken_ = 0;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace afo::psplus
