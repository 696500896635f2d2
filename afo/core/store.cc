#include "afo/core/store.h"

#include <algorithm>
#include <mutex>

namespace afo {

Creation Store::AddTable(std::int64_t number, const TableOptions& options) {
  if (number < 0 || number >= kMostTables) return Creation::kOutOfRange;
  const std::unique_lock lock(mutex_);
  if (number >= static_cast<std::int64_t>(tables_.size())) tables_.resize(number + 1);
  if (tables_[number] == nullptr) tables_[number] = std::make_unique<Table>(options);
  return tables_[number]->options() == options ? Creation::kOk : Creation::kConflict;
}

Creation Store::CreateDense(const OptimizerOptions& options, std::int64_t size) {
  if (!IsDenseRule(options) || size < 0 || size > kMostDenseWeights) return Creation::kOutOfRange;
  const std::unique_lock lock(mutex_);
  if (dense_ == nullptr) dense_ = DenseWeights::Create(options, size);
  if (dense_ == nullptr) return Creation::kOutOfMemory;
  return dense_->options() == options && dense_->size() == size ? Creation::kOk : Creation::kConflict;
}

FoundTables Store::FindTables(std::span<const std::int32_t> numbers) const {
  FoundTables found;
  const std::shared_lock lock(mutex_);
  for (const std::int32_t number : numbers) {
    if (number < 0 || number >= static_cast<std::int64_t>(tables_.size()) || tables_[number] == nullptr) {
      found.missing = number;
      return found;
    }
    found.tables.push_back(tables_[number].get());
  }
  return found;
}

DenseWeights* Store::dense() const {
  const std::shared_lock lock(mutex_);
  return dense_.get();
}

std::size_t Store::tables() const {
  const std::shared_lock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(tables_.begin(), tables_.end(), [](const auto& table) { return table != nullptr; }));
}

std::size_t Store::bytes() const {
  const std::shared_lock lock(mutex_);
  std::size_t all = progress_.bytes() + (dense_ == nullptr ? 0 : dense_->bytes());
  for (const auto& table : tables_) all += table == nullptr ? 0 : table->bytes();
  return all;
}

}  // namespace afo
