#include "afo/serving/session_group.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/threadpool_interface.h"

namespace afo {
namespace {

using tensorflow::thread::ThreadPool;

// A pool as TensorFlow takes one from outside.
class View : public tensorflow::thread::ThreadPoolInterface {
 public:
  explicit View(ThreadPool* pool) : pool_(pool->AsEigenThreadPool()) {}
  void Schedule(std::function<void()> task) override { pool_->Schedule(std::move(task)); }
  void ScheduleWithHint(std::function<void()> task, int start, int end) override {
    pool_->ScheduleWithHint(std::move(task), start, end);
  }
  void Cancel() override { pool_->Cancel(); }
  int NumThreads() const override { return pool_->NumThreads(); }
  int CurrentThreadId() const override { return pool_->CurrentThreadId(); }

 private:
  Eigen::ThreadPoolInterface* const pool_;
};

// Those that this process may run on.
std::vector<int> AllowedProcessors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  std::vector<int> processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed)) processors.push_back(processor);
  }
  return processors;
}

// `all` in `count` sets of neighbours, which share one where there are fewer than sets.
std::vector<std::vector<int>> Split(const std::vector<int>& all, std::size_t count) {
  std::vector<std::vector<int>> sets(count);
  for (std::size_t i = 0; i < std::max(all.size(), count) && !all.empty(); ++i) {
    const std::size_t set = all.size() < count ? i : i * count / all.size();
    sets[set].push_back(all[i % all.size()]);
  }
  return sets;
}

absl::StatusOr<std::vector<std::vector<int>>> ProcessorsOf(const ProcessorConfig& config) {
  const std::vector<int> allowed = AllowedProcessors();
  if (config.cpusets_are_auto) return Split(allowed, static_cast<std::size_t>(config.session_num));
  for (const auto& set : config.cpusets) {
    for (const int processor : set) {
      if (std::find(allowed.begin(), allowed.end(), processor) == allowed.end()) {
        return absl::InvalidArgumentError(absl::StrCat("model_config: $.cpusets names processor ", processor,
                                                       "; this process may use ", absl::StrJoin(allowed, ",")));
      }
    }
  }
  return config.cpusets;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionGroup>> SessionGroup::Create(const ProcessorConfig& config) {
  std::unique_ptr<SessionGroup> made(new SessionGroup(config));
  if (config.session_num == 1 && !made->is_pinned_) return made;
  auto processors = ProcessorsOf(config);
  if (!processors.ok()) return processors.status();
  processors->resize(static_cast<std::size_t>(config.session_num));
  for (const auto& own : *processors) {
    const int number = static_cast<int>(made->groups_.size());
    // Threads run where who makes them does.
    std::thread([&] {
      cpu_set_t set;
      CPU_ZERO(&set);
      for (const int processor : own) CPU_SET(processor, &set);
      if (!own.empty()) sched_setaffinity(0, sizeof(set), &set);
      made->groups_.push_back(made->MakeGroup(own, number));
    }).join();
  }
  return made;
}

SessionGroup::SessionGroup(const ProcessorConfig& config)
    : intra_op_threads_(config.intra_op_parallelism_threads),
      inter_op_threads_(config.inter_op_parallelism_threads),
      is_inline_(config.enable_inline_execute),
      is_pinned_(config.cpusets_are_auto || !config.cpusets.empty()),
      by_thread_(config.select_session_by_thread) {
  groups_.reserve(static_cast<std::size_t>(config.session_num));
}

SessionGroup::Group SessionGroup::MakeGroup(const std::vector<int>& processors, int number) const {
  const std::size_t all = processors.empty() ? std::max<std::size_t>(1, AllowedProcessors().size() / groups_.capacity())
                                             : processors.size();
  const auto make = [&](const char* what, int threads) {
    return std::make_unique<ThreadPool>(tensorflow::Env::Default(), absl::StrCat("afo_", what, number),
                                        threads > 0 ? threads : static_cast<int>(all));
  };
  Group group{.intra_op = make("intra", intra_op_threads_)};
  group.intra_op_view = std::make_unique<View>(group.intra_op.get());
  group.options.intra_op_threadpool = group.intra_op_view.get();
  // A request is on threads of another pool than its operations' parts, for which it waits.
  if (!is_inline_ || is_pinned_) {
    group.requests = make("request", inter_op_threads_);
    group.inter_op_view = std::make_unique<View>(group.requests.get());
    group.options.inter_op_threadpool = group.inter_op_view.get();
  }
  return group;
}

std::size_t SessionGroup::Select() {
  if (by_thread_) return static_cast<std::size_t>(syscall(SYS_gettid)) % groups_.size();
  return turn_.fetch_add(1, std::memory_order_relaxed) % groups_.size();
}

absl::Status SessionGroup::Run(const Request& request) {
  if (groups_.empty()) return request({});
  const Group& group = groups_[Select()];
  if (!is_inline_ || !is_pinned_) return request(group.options);
  absl::Status status;
  absl::Notification over;
  group.requests->Schedule([&] {
    status = request(group.options);
    over.Notify();
  });
  over.WaitForNotification();
  return status;
}

}  // namespace afo
