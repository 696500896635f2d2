#include "afo/core/dense_weights.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>

#include "afo/core/kernels.h"

namespace afo {
namespace {

// Guesses of a chunk's nanoseconds: a copy of an array, and an update.
constexpr std::int64_t kCopyCost = 1000, kApplyCost = 3000;

void Copy(const float* from, std::int32_t count, float* to) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace

bool IsDenseRule(const OptimizerOptions& options) {
  return options.rule != Rule::kGroupFtrl && options.rule != Rule::kAdagradDecay && options.clip_norm == 0;
}

std::unique_ptr<DenseWeights> DenseWeights::Create(const OptimizerOptions& options, std::int64_t size) {
  assert(IsDenseRule(options) && size >= 0 && size <= kMostDenseWeights);
  std::unique_ptr<DenseWeights> created(new DenseWeights(options, size));
  const std::size_t bytes = static_cast<std::size_t>(size) * (1 + created->slots_) * sizeof(float);
  if (!created->pages_.Grow(bytes)) return nullptr;
  created->pages_.Populate(bytes);
  created->ChangeChunks(Serial, kCopyCost, [&options](const Chunk& chunk) {
    FillSlots(options, chunk.weights, chunk.weights + chunk.count, chunk.count);
  });
  return created;
}

DenseWeights::DenseWeights(const OptimizerOptions& options, std::int64_t size)
    : options_(options),
      size_(size),
      slots_(SlotsOf(options.rule)),
      locks_(static_cast<std::size_t>((size + kChunkWeights - 1) / kChunkWeights)) {}

DenseWeights::Chunk DenseWeights::ChunkOf(std::int64_t number) const {
  const std::int64_t first = number * kChunkWeights;
  return {.weights = reinterpret_cast<float*>(pages_.data()) + first * (1 + slots_),
          .first = first,
          .count = static_cast<std::int32_t>(std::min<std::int64_t>(kChunkWeights, size_ - first))};
}

template <typename Body>
void DenseWeights::ReadChunks(const Parallel& parallel, std::int64_t cost, const Body& body) const {
  parallel(static_cast<std::int64_t>(locks_.size()), cost, [this, &body](std::int64_t first, std::int64_t last) {
    for (std::int64_t number = first; number < last; ++number) {
      const std::shared_lock lock(locks_[number].mutex);
      body(ChunkOf(number));
    }
  });
}

template <typename Body>
void DenseWeights::ChangeChunks(const Parallel& parallel, std::int64_t cost, const Body& body) {
  parallel(static_cast<std::int64_t>(locks_.size()), cost, [this, &body](std::int64_t first, std::int64_t last) {
    for (std::int64_t number = first; number < last; ++number) {
      const std::unique_lock lock(locks_[number].mutex);
      body(ChunkOf(number));
    }
  });
}

void DenseWeights::Read(float* to, const Parallel& parallel) const {
  ReadChunks(parallel, kCopyCost, [to](const Chunk& chunk) { Copy(chunk.weights, chunk.count, to + chunk.first); });
}

void DenseWeights::Apply(const float* gradient, float schedule, const Parallel& parallel) {
  const ApplyRows apply = ActiveKernels().of(WeightType::kFloat32, options_.rule);
  const Update update = UpdateOf(options_, schedule, powers_.fetch_add(1, std::memory_order_relaxed) + 1);
  ChangeChunks(parallel, kApplyCost, [this, gradient, apply, &update](const Chunk& chunk) {
    const float* of = gradient + chunk.first;
    void* weights = chunk.weights;
    apply(options_, update, {.rows = &weights,
                             .gradients = &of,
                             .count = 1,
                             .dim = chunk.count,
                             .slots_at = chunk.count * static_cast<std::int32_t>(sizeof(float))});
  });
}

void DenseWeights::Move(const float* change, const Parallel& parallel) {
  ChangeChunks(parallel, kCopyCost, [change](const Chunk& chunk) {
    for (std::int32_t i = 0; i < chunk.count; ++i) chunk.weights[i] += change[chunk.first + i];
  });
}

std::uint64_t DenseWeights::Export(float* weights, float* slots, const Parallel& parallel) const {
  const std::uint64_t powers = powers_.load(std::memory_order_relaxed);
  ReadChunks(parallel, kCopyCost * (1 + slots_), [this, weights, slots](const Chunk& chunk) {
    Copy(chunk.weights, chunk.count, weights + chunk.first);
    for (std::int32_t slot = 0; slot < slots_; ++slot) {
      Copy(chunk.weights + (1 + slot) * chunk.count, chunk.count, slots + slot * size_ + chunk.first);
    }
  });
  return powers;
}

void DenseWeights::Import(const float* weights, const float* slots, std::uint64_t powers, const Parallel& parallel) {
  ChangeChunks(parallel, kCopyCost * (1 + slots_), [this, weights, slots](const Chunk& chunk) {
    Copy(weights + chunk.first, chunk.count, chunk.weights);
    for (std::int32_t slot = 0; slot < slots_; ++slot) {
      Copy(slots + slot * size_ + chunk.first, chunk.count, chunk.weights + (1 + slot) * chunk.count);
    }
  });
  powers_.store(powers, std::memory_order_relaxed);
}

void DenseWeights::Reset(const float* weights, const Parallel& parallel) {
  ChangeChunks(parallel, kCopyCost * (1 + slots_), [this, weights](const Chunk& chunk) {
    Copy(weights + chunk.first, chunk.count, chunk.weights);
    FillSlots(options_, chunk.weights, chunk.weights + chunk.count, chunk.count);
  });
  powers_.store(0, std::memory_order_relaxed);
}

}  // namespace afo
