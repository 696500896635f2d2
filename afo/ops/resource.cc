#include "afo/ops/resource.h"

#include <mutex>

#include "absl/strings/str_cat.h"

namespace afo {

std::string EmbeddingTables::DebugString() const {
  std::shared_lock lock(mutex_);
  return absl::StrCat(tables_.size(), " embedding tables");
}

int64_t EmbeddingTables::MemoryUsed() const {
  std::shared_lock lock(mutex_);
  int64_t all = 0;
  for (const auto& table : tables_) all += table == nullptr ? 0 : static_cast<int64_t>(table->bytes());
  return all;
}

absl::Status EmbeddingTables::Add(int64_t number, const TableOptions& options) {
  std::unique_lock lock(mutex_);
  if (number >= static_cast<int64_t>(tables_.size())) tables_.resize(number + 1);
  if (tables_[number] == nullptr) {
    tables_[number] = std::make_unique<Table>(options);
    return absl::OkStatus();
  }
  if (tables_[number]->options() == options) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("embedding table ", number,
                                               " is there with another width, optimizer or initializer"));
}

absl::StatusOr<std::vector<Table*>> EmbeddingTables::Find(const std::vector<int32_t>& numbers) const {
  std::shared_lock lock(mutex_);
  std::vector<Table*> found;
  for (const int32_t number : numbers) {
    if (number < 0 || number >= static_cast<int64_t>(tables_.size()) || tables_[number] == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("there is no embedding table ", number, " on this server"));
    }
    found.push_back(tables_[number].get());
  }
  return found;
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
