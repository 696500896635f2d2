// The resource behind the operations: the embedding tables of one server, by number.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "afo/core/batch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/statusor.h"
#include "tensorflow/core/util/work_sharder.h"

namespace afo {

// Thread-safe. Tables are added while a job starts, and never go.
class EmbeddingTables : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override;
  // The memory that TensorFlow's own statistics show for it.
  int64_t MemoryUsed() const override;

  // Creates table `number`, or checks that it was created alike: several clients may begin at once.
  absl::Status Add(int64_t number, const TableOptions& options);
  // The tables of these numbers. An error names the first that is not there.
  absl::StatusOr<std::vector<Table*>> Find(const std::vector<int32_t>& numbers) const;

 private:
  mutable std::shared_mutex mutex_;
  std::vector<std::unique_ptr<Table>> tables_;
};

// The threads of the device that runs a kernel.
inline Parallel ThreadsOf(tensorflow::OpKernelContext* context) {
  const auto* workers = context->device()->tensorflow_cpu_worker_threads();
  return [workers](std::int64_t units, std::int64_t cost, const Body& body) {
    tensorflow::Shard(workers->num_threads, workers->workers, units, cost, body);
  };
}

// Where each table's keys begin among those of one server: `splits` as UniquePartition makes it.
absl::Status CheckedSplits(const tensorflow::Tensor& splits, int64_t tables, int64_t keys);

inline absl::Status StatusOf(Status status) {
  if (status == Status::kOk) return absl::OkStatus();
  return absl::ResourceExhaustedError("no memory is left for new rows of an embedding table");
}

}  // namespace afo
