// Dense weights: the part of a model's dense vector that lies on one server, with the slots of its optimizer.
//
//   chunk := { weights[n] | slots of the optimizer, [n] each }, n = kChunkWeights, of the last one what is left
//
// A chunk is a row of an embedding table without its header, and is updated by the same kernels in one pass. It has a
// lock of its own: readers share it, so none sees a chunk half written. Chunks of one call may be of several instants,
// as workers that train at once leave them in any case.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "afo/core/memory.h"
#include "afo/core/optimizer.h"
#include "afo/core/parallel.h"

namespace afo {

// Its lock is taken in a hundredth of the time that its update takes, and its weights stay in a first-level cache.
constexpr std::int32_t kChunkWeights = 4096;
static_assert(kChunkWeights <= kMaxDim && kChunkWeights * sizeof(float) % 64 == 0);

// Weights on one server, 8 GiB without slots: no tensor of a message has as many.
constexpr std::int64_t kMostDenseWeights = std::int64_t{1} << 31;

// Whether dense weights can have this rule: it does not look at a row as a whole, which a chunk is not, nor at its age.
bool IsDenseRule(const OptimizerOptions& options);

// Thread-safe.
class DenseWeights {
 public:
  // Weights of zero, with the slots of those. Null when there is no memory. Preconditions: IsDenseRule(options), and
  // size is in [0, kMostDenseWeights].
  static std::unique_ptr<DenseWeights> Create(const OptimizerOptions& options, std::int64_t size);

  const OptimizerOptions& options() const { return options_; }
  std::int64_t size() const { return size_; }
  std::int32_t slots() const { return slots_; }
  // Memory that the kernel was asked for.
  std::size_t bytes() const { return pages_.populated() + locks_.size() * sizeof(Lock); }

  // Arrays, here and below, have `size` elements; those of slots have one such array behind the other.
  void Read(float* to, const Parallel& parallel) const;
  // One update, which counts; `schedule` is a factor of the learning rate.
  void Apply(const float* gradient, float schedule, const Parallel& parallel);
  // Adds to the weights alone.
  void Move(const float* change, const Parallel& parallel);

  // Returns the number of updates so far.
  std::uint64_t Export(float* weights, float* slots, const Parallel& parallel) const;
  void Import(const float* weights, const float* slots, std::uint64_t powers, const Parallel& parallel);
  // Weights that begin here: with new slots, and no updates so far.
  void Reset(const float* weights, const Parallel& parallel);

 private:
  struct alignas(64) Lock {  // neighbours on one line of the cache would cost each other's threads time
    mutable std::shared_mutex mutex;
  };
  struct Chunk {
    float* weights;  // with the slots behind them
    std::int64_t first;
    std::int32_t count;
  };

  DenseWeights(const OptimizerOptions& options, std::int64_t size);

  Chunk ChunkOf(std::int64_t number) const;
  // Calls `body(chunk)` for all, each under its lock.
  template <typename Body>
  void ReadChunks(const Parallel& parallel, std::int64_t cost, const Body& body) const;
  template <typename Body>
  void ChangeChunks(const Parallel& parallel, std::int64_t cost, const Body& body);

  const OptimizerOptions options_;
  const std::int64_t size_;
  const std::int32_t slots_;
  Pages pages_;
  std::vector<Lock> locks_;  // one a chunk
  std::atomic<std::uint64_t> powers_{0};
};

}  // namespace afo
