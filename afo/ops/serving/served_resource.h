// The table of a served model as a resource of TensorFlow.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "afo/core/served_table.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/statusor.h"

namespace afo {

using Rows = std::shared_ptr<const ServedRows>;

// Thread-safe: who looks up keeps the table that was there when it began.
class Served : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "a table of a served model"; }
  std::int64_t MemoryUsed() const override {
    const auto table = Get();
    return table == nullptr ? 0 : static_cast<std::int64_t>(table->bytes());
  }
  Rows Get() const {
    std::lock_guard lock(mutex_);
    return table_;
  }
  void Set(Rows table) {
    std::lock_guard lock(mutex_);
    table_.swap(table);
  }

 private:
  mutable std::mutex mutex_;
  Rows table_;
};

// The table of a kernel's input, which was loaded; of rows of `dim` weights, 0: of any.
inline absl::StatusOr<Rows> LoadedRows(tensorflow::OpKernelContext* context, int input, std::int64_t dim = 0) {
  tensorflow::core::RefCountPtr<Served> served;
  TF_RETURN_IF_ERROR(tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, input), &served));
  Rows table = served->Get();
  if (table == nullptr) return absl::FailedPreconditionError("the table of the model was not loaded");
  if (dim != 0 && table->header().dim != dim) {
    return absl::DataLossError(
        absl::StrCat("the table has rows of ", table->header().dim, " weights, and the model wants ", dim));
  }
  return table;
}

}  // namespace afo
