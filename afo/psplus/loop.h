// A thread that waits for sockets and timers and does what they bring, and memory that its connections use in turn.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace afo::psplus {

// What a connection reads at a time, and what it encrypts before it sends.
inline constexpr std::size_t kBlockBytes = 256 << 10;

class Loop {
 public:
  Loop();
  // Precondition: Drain was called, or nothing was ever posted.
  ~Loop() = default;

  // False where the system has no thread left.
  [[nodiscard]] bool Start();
  asio::io_context& context() { return context_; }
  bool IsHere() { return context_.get_executor().running_in_this_thread(); }
  // From any thread; dropped after Drain.
  void Post(std::function<void()> work);
  // Runs what there is until nothing waits any more, and ends the thread: connections, timers and acceptors of this loop
  // have to be closed, by what was posted before.
  void Drain();

  // Of one call: what was just received, and plain bytes of a record.
  char* received() { return received_.get(); }
  char* record() { return record_.get(); }
  // A block of kBlockBytes until it is given back; a few are kept.
  std::unique_ptr<char[]> TakeBlock();
  void GiveBlock(std::unique_ptr<char[]> block);

 private:
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
  std::mutex mutex_;
  bool drained_ = false;
  std::unique_ptr<char[]> received_, record_;
  std::vector<std::unique_ptr<char[]>> blocks_;
};

}  // namespace afo::psplus
