// The resource behind the operations: the store of one server.
#pragma once

#include <memory>
#include <string>

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

  Store& store() { return *store_; }
  std::shared_ptr<Store> shared_store() { return store_; }

 private:
  const std::shared_ptr<Store> store_ = std::make_shared<Store>();
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

}  // namespace afo
