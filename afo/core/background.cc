#include "afo/core/background.h"

#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace afo {
namespace {

struct Queue {
  std::mutex mutex;
  std::deque<std::function<void()>> waiting;
  bool has_thread = false;
};

// Never destroyed: the thread may be at work while the process ends.
Queue& TheQueue() {
  static Queue* queue = new Queue;
  return *queue;
}

void WorkThrough() {
  Queue& queue = TheQueue();
  for (;;) {
    std::function<void()> work;
    {
      std::lock_guard lock(queue.mutex);
      queue.has_thread = !queue.waiting.empty();
      if (!queue.has_thread) return;
      work = std::move(queue.waiting.front());
      queue.waiting.pop_front();
    }
    work();
  }
}

}  // namespace

void RunInBackground(std::function<void()> work) {
  Queue& queue = TheQueue();
  std::lock_guard lock(queue.mutex);
  queue.waiting.push_back(std::move(work));
  if (queue.has_thread) return;
  try {
    std::thread(WorkThrough).detach();
    queue.has_thread = true;
  } catch (const std::system_error&) {
    // No thread can be had now. The next work brings one.
  }
}

}  // namespace afo
