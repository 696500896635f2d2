// Groups of threads that compute a model's requests, over one set of variables and tables: DeepRec's session group.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "afo/serving/processor_config.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/platform/threadpool_options.h"

namespace afo {

// Thread-safe.
class SessionGroup {
 public:
  // Computes a request with these threads.
  using Request = std::function<absl::Status(const tensorflow::thread::ThreadPoolOptions&)>;

  // Without groups requests have TensorFlow's own threads. InvalidArgument where this process may not run on a
  // processor of `cpusets`.
  static absl::StatusOr<std::unique_ptr<SessionGroup>> Create(const ProcessorConfig& config);

  // In the group whose turn it is: on a thread of it where its threads have processors of their own and operations are
  // inline, else on the caller's.
  absl::Status Run(const Request& request);

 private:
  struct Group {
    std::unique_ptr<tensorflow::thread::ThreadPool> requests, intra_op;
    std::unique_ptr<tensorflow::thread::ThreadPoolInterface> inter_op_view, intra_op_view;
    tensorflow::thread::ThreadPoolOptions options;
  };

  explicit SessionGroup(const ProcessorConfig& config);
  Group MakeGroup(const std::vector<int>& processors, int number) const;
  std::size_t Select();

  const int intra_op_threads_, inter_op_threads_;
  const bool is_inline_, is_pinned_, by_thread_;
  std::vector<Group> groups_;
  std::atomic<std::size_t> turn_ = 0;
};

}  // namespace afo
