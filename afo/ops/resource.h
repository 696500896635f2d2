// The resource behind the operations: the store of one server.
#pragma once

#include <string>
#include <vector>

#include "afo/core/batch.h"
#include "afo/core/store.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/statusor.h"
#include "tensorflow/core/util/work_sharder.h"

namespace afo {

// Thread-safe, as the store. Its name is that of the first kind of state that was in it, and of its handles.
class EmbeddingTables : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override;
  // The memory that TensorFlow's own statistics show for it.
  int64_t MemoryUsed() const override;

  // The tables of these numbers. An error names the first that is not there.
  absl::StatusOr<std::vector<Table*>> Find(const std::vector<int32_t>& numbers) const;

  Store& store() { return store_; }

 private:
  Store store_;
};

// The resource of a kernel's first input.
absl::StatusOr<tensorflow::core::RefCountPtr<EmbeddingTables>> TablesOf(tensorflow::OpKernelContext* context);
// The same, created where it is not there.
absl::StatusOr<tensorflow::core::RefCountPtr<EmbeddingTables>> CreatedTables(tensorflow::OpKernelContext* context);

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
