// The state that one server keeps for a job: embedding tables by number, dense weights, and the job's progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "afo/core/dense_weights.h"
#include "afo/core/progress.h"
#include "afo/core/table.h"

namespace afo {

// Tables of one server: a number that somebody made up takes 8 MiB at most.
constexpr std::int64_t kMostTables = 1 << 20;

// kConflict: it is there, and otherwise.
enum class [[nodiscard]] Creation { kOk, kConflict, kOutOfRange, kOutOfMemory };

struct [[nodiscard]] FoundTables {
  std::vector<Table*> tables;
  std::optional<std::int32_t> missing;  // the first number without a table
};

// Thread-safe. What is created while a job starts never goes, so pointers to it are as good as the store.
class Store {
 public:
  // Creates what is not there, or checks that it was created alike: several clients may begin at once.
  Creation AddTable(std::int64_t number, const TableOptions& options);
  Creation CreateDense(const OptimizerOptions& options, std::int64_t size);

  FoundTables FindTables(std::span<const std::int32_t> numbers) const;
  // Null until they are created.
  DenseWeights* dense() const;
  Progress& progress() { return progress_; }

  std::size_t tables() const;
  // The memory of everything.
  std::size_t bytes() const;

 private:
  mutable std::shared_mutex mutex_;  // of the pointers
  std::vector<std::unique_ptr<Table>> tables_;
  std::unique_ptr<DenseWeights> dense_;
  Progress progress_;
};

}  // namespace afo
