#include "afo/ops/resource.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace afo {

std::string EmbeddingTables::DebugString() const {
  const DenseWeights* dense = store_->dense();
  return absl::StrCat(store_->tables(), " embedding tables, ", dense == nullptr ? 0 : dense->size(), " dense weights");
}

int64_t EmbeddingTables::MemoryUsed() const { return static_cast<int64_t>(store_->bytes()); }

absl::StatusOr<tensorflow::core::RefCountPtr<EmbeddingTables>> TablesOf(tensorflow::OpKernelContext* context) {
  tensorflow::core::RefCountPtr<EmbeddingTables> tables;
  TF_RETURN_IF_ERROR(tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), &tables));
  return tables;
}

absl::StatusOr<tensorflow::core::RefCountPtr<EmbeddingTables>> CreatedTables(tensorflow::OpKernelContext* context) {
  tensorflow::core::RefCountPtr<EmbeddingTables> tables;
  TF_RETURN_IF_ERROR(tensorflow::LookupOrCreateResource<EmbeddingTables>(
      context, tensorflow::HandleFromInput(context, 0), &tables, [](EmbeddingTables** created) {
        *created = new EmbeddingTables();
        return absl::OkStatus();
      }));
  return tables;
}

absl::Status CheckedSplits(const tensorflow::Tensor& splits, int64_t tables, int64_t keys) {
  if (splits.dims() != 1 || splits.NumElements() != tables + 1) {
    return absl::InvalidArgumentError(absl::StrCat("splits must have ", tables + 1, " elements for ", tables,
                                                   " tables, and has the shape ", splits.shape().DebugString()));
  }
  const auto ends = splits.vec<int32_t>();
  for (int64_t i = 0; i < tables; ++i) {
    if (ends(i) > ends(i + 1)) return absl::InvalidArgumentError("splits must not fall");
  }
  if (ends(0) != 0 || ends(tables) != keys) {
    return absl::InvalidArgumentError(absl::StrCat("splits must go from 0 to the number of keys, ", keys));
  }
  return absl::OkStatus();
}

}  // namespace afo
