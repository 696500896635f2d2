#include "afo/core/shard.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>

#include "afo/core/kernels.h"

namespace afo {
namespace {

// Keys between a request for memory and its use: enough to hide a miss, and few enough that nothing is pushed out again.
constexpr std::uint32_t kAhead = 24;
constexpr std::uint32_t kRing = 64;
static_assert(kRing > 2 * kAhead, "a key's place is not taken before it is done");
// Rows that one call of a kernel updates.
constexpr std::uint32_t kBatch = 32;
constexpr std::size_t kCacheLine = 64;

void Fetch(const void* first, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  const std::uintptr_t end = begin + bytes;
  for (std::uintptr_t line = begin & ~(kCacheLine - 1); line < end; line += kCacheLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(line));
  }
}

// Passes through AdaGrad's decay between two steps. A row that a late worker touches with an older step decays nothing.
std::uint32_t Decays(const OptimizerOptions& options, std::uint32_t before, std::uint32_t now) {
  return now > before ? now / options.decay_steps - before / options.decay_steps : 0;
}

// Those positions that have a row, and their rows; returns how many.
std::uint32_t KeepFound(const ShardKeys& keys, std::uint32_t* found, std::uint32_t* kept) {
  std::uint32_t keeps = 0;
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    if (found[i] == kNoRow) continue;
    kept[keeps] = keys.positions[i];
    found[keeps++] = found[i];
  }
  return keeps;
}

}  // namespace

TableSpec::TableSpec(const TableOptions& options)
    : options(options),
      layout{options.dim, options.dim * (1 + SlotsOf(options.optimizer.rule)), options.weights},
      initializer(options.initializer) {}

bool TableSpec::ChangedSince(std::uint8_t row_epoch, std::int64_t since) const {
  const std::uint64_t now = epoch.load(std::memory_order_relaxed);
  const std::uint64_t passed = now - static_cast<std::uint64_t>(since);
  return since == kAllEpochs || passed > 0xff || static_cast<std::uint8_t>(now - row_epoch) <= passed;
}

Shard::Shard(const TableSpec& spec, std::int32_t number)
    : spec_(spec), number_(number), rows_(spec.layout), bloom_(spec.options.admission, spec.options.shard_bits) {}

std::size_t Shard::size() const {
  std::shared_lock reading(mutex_);
  return index_.size();
}

std::size_t Shard::bytes() const {
  std::shared_lock reading(mutex_);
  return index_.bytes() + rows_.bytes() + candidates_.bytes() + bloom_.bytes();
}

void Shard::FetchFloats(const float* first, std::size_t place) const {
  Fetch(first + place * spec_.layout.dim, static_cast<std::size_t>(spec_.layout.dim) * sizeof(float));
}

template <typename Found>
void Shard::FindAll(const ShardKeys& keys, std::size_t wanted, const float* beside, Found found) const {
  if (index_.bytes() == 0) {
    for (std::uint32_t i = 0; i < keys.count; ++i) found(i, kNoRow);
    return;
  }
  // Three keys are in work at a time: one whose line is asked for, one whose row is, and one that is compared. A stream
  // of requests keeps the memory busier than batches that end in a wait each.
  std::uint64_t hashes[kRing];
  std::uint32_t guesses[kRing];
  const std::uint32_t ahead = std::min(kAhead, keys.count);
  for (std::uint32_t i = 0; i < keys.count + 2 * ahead; ++i) {
    if (i < keys.count) {
      hashes[i % kRing] = HashOf(keys.key(i));
      __builtin_prefetch(index_.home(hashes[i % kRing]));
    }
    if (i >= ahead && i < keys.count + ahead) {
      const std::uint32_t place = (i - ahead) % kRing;
      guesses[place] = index_.Guess(hashes[place]);
      if (guesses[place] != kNoRow) Fetch(rows_.header(guesses[place]), wanted);
      FetchFloats(beside, keys.positions[i - ahead]);
    }
    if (i >= 2 * ahead) {
      const std::uint32_t done = i - 2 * ahead;
      const std::int64_t key = keys.key(done);
      std::uint32_t row = guesses[done % kRing];
      if (row == kNoRow || rows_.header(row)->key != key) {
        row = index_.Find(key, hashes[done % kRing], rows_);
      }
      found(done, row);
    }
  }
}

void Shard::BeginRow(std::uint32_t row, const float* weights) {
  float kept[kMaxDim];
  rows_.Write(row, weights);
  rows_.Read(row, kept);
  FillSlots(spec_.options.optimizer, kept, rows_.slots(row), spec_.layout.dim);
}

std::uint32_t Shard::NewRow(std::int64_t key, std::uint64_t hash) {
  const std::uint32_t row = rows_.Take();
  RowHeader* header = rows_.header(row);
  header->key = key;
  header->set_counters(0, spec_.row_epoch());
  float weights[kMaxDim];
  spec_.initializer.Fill(key, weights, spec_.layout.dim);
  BeginRow(row, weights);
  index_.Insert(hash, row);
  return row;
}

bool Shard::Reserve(std::size_t count) {
  return rows_.Reserve(count) && index_.Reserve(count, rows_);
}

std::uint32_t Shard::RowOf(std::int64_t key) const {
  return index_.bytes() == 0 ? kNoRow : index_.Find(key, HashOf(key), rows_);
}

std::uint32_t Shard::FindOrInsert(std::int64_t key) {
  const std::uint64_t hash = HashOf(key);
  const std::uint32_t row = index_.Find(key, hash, rows_);
  return row == kNoRow ? NewRow(key, hash) : row;
}

void Shard::CopyRow(std::uint32_t row, std::size_t place, const LookupOutput& to) const {
  rows_.Read(row, to.values + place * spec_.layout.dim);
  if (to.rows != nullptr) to.rows[place] = row;
}

Status Shard::LookupOrInsert(const ShardKeys& keys, const LookupOutput& to) {
  if (!spec_.options.admission.open()) {
    Lookup(keys, to);
    return Status::kOk;
  }
  thread_local std::vector<std::uint32_t> kept;
  std::vector<std::uint32_t>& missing = kept;
  missing.clear();
  {
    std::shared_lock reading(mutex_);
    FindAll(keys, sizeof(RowHeader) + spec_.layout.weight_bytes(), to.values,
            [&](std::uint32_t i, std::uint32_t row) {
              if (row == kNoRow) {
                missing.push_back(keys.positions[i]);
              } else {
                CopyRow(row, keys.positions[i], to);
              }
            });
  }
  if (missing.empty()) return Status::kOk;
  std::unique_lock writing(mutex_);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    // Not for all at once: a batch may have the same new key a million times.
    if (i % kBatch == 0 && !Reserve(std::min<std::size_t>(kBatch, missing.size() - i))) {
      return Status::kOutOfMemory;
    }
    // Looked for again: another thread may have inserted it, or this batch has it twice.
    const std::uint32_t place = missing[i];
    CopyRow(FindOrInsert(keys.keys[place]), place, to);
  }
  return Status::kOk;
}

void Shard::Lookup(const ShardKeys& keys, const LookupOutput& to) const {
  std::shared_lock reading(mutex_);
  FindAll(keys, sizeof(RowHeader) + spec_.layout.weight_bytes(), to.values,
          [&](std::uint32_t i, std::uint32_t row) {
            const std::size_t place = keys.positions[i];
            if (row != kNoRow) return CopyRow(row, place, to);
            float* own = to.values + place * spec_.layout.dim;
            if (spec_.options.admission.open()) {
              spec_.initializer.Fill(keys.keys[place], own, spec_.layout.dim);
              spec_.layout.Round(own, spec_.layout.dim);
            } else {
              std::fill_n(own, spec_.layout.dim, spec_.options.admission.default_value);
            }
            if (to.rows != nullptr) to.rows[place] = kNoRow;
          });
}

void Shard::Resolve(const ShardKeys& keys, const RowGradients& of, std::uint32_t* found) const {
  if (of.rows == nullptr) {
    FindAll(keys, rows_.stride(), of.gradients,
            [found](std::uint32_t i, std::uint32_t row) { found[i] = row; });
    return;
  }
  const auto fetch = [&](std::uint32_t i) {
    found[i] = of.rows[keys.positions[i]] < rows_.end() ? of.rows[keys.positions[i]] : kNoRow;
    if (found[i] != kNoRow) Fetch(rows_.header(found[i]), rows_.stride());
    FetchFloats(of.gradients, keys.positions[i]);
  };
  const std::uint32_t ahead = std::min(kAhead, keys.count);
  for (std::uint32_t i = 0; i < ahead; ++i) fetch(i);
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    if (i + ahead < keys.count) fetch(i + ahead);
    if (found[i] == kNoRow) continue;
    const RowHeader& header = *rows_.header(found[i]);
    if (header.key != keys.key(i) || header.is_free()) found[i] = kNoRow;
  }
}

void Shard::ApplyBatch(const ShardKeys& keys, const std::uint32_t* found, const RowGradients& of, const Update& update,
                       const StepInfo& info) {
  void* weights[kBatch];
  const float* changes[kBatch];
  std::uint32_t decays[kBatch];
  std::uint64_t draws[kBatch];
  const auto epoch = spec_.row_epoch();
  const bool drawing = spec_.layout.weights == WeightType::kBfloat16;
  const std::uint64_t number = Mix(update.number);
  const bool decaying = spec_.options.optimizer.rule == Rule::kAdagradDecay;
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    RowHeader* header = rows_.header(found[i]);
    const std::size_t place = keys.positions[i];
    weights[i] = rows_.weights(found[i]);
    // Of the key and the update alone: the same order of updates gives the same weights.
    if (drawing) draws[i] = Mix(static_cast<std::uint64_t>(header->key) + number);
    changes[i] = of.gradients + place * spec_.layout.dim;
    if (decaying) decays[i] = Decays(spec_.options.optimizer, header->step, info.step);
    header->step = std::max(header->step, info.step);
    header->set_counters(std::uint64_t{header->frequency()} + (of.counts == nullptr ? 1 : of.counts[place]), epoch);
  }
  const RowBatch batch{.rows = weights,
                       .gradients = changes,
                       .decays = decaying ? decays : nullptr,
                       .count = static_cast<std::int32_t>(keys.count),
                       .dim = spec_.layout.dim,
                       .slots_at = static_cast<std::int32_t>(spec_.layout.slots_at()),
                       .draws = drawing ? draws : nullptr};
  const OptimizerOptions& options = spec_.options.optimizer;
  ActiveKernels().of(spec_.layout.weights, options.rule)(options, update, batch);
}

Status Shard::Apply(const ShardKeys& keys, const RowGradients& of, const Update& update, const StepInfo& info) {
  assert(info.step < kFreeStep);
  std::uint32_t found[kBatch];
  std::unique_lock writing(mutex_);
  for (std::uint32_t at = 0; at < keys.count; at += kBatch) {
    const ShardKeys some{keys.keys, keys.positions + at, std::min(kBatch, keys.count - at)};
    Resolve(some, of, found);
    if (std::find(found, found + some.count, kNoRow) == found + some.count) {
      ApplyBatch(some, found, of, update, info);
    } else if (spec_.options.admission.open()) {
      if (!InsertAbsent(some, found)) return Status::kOutOfMemory;
      ApplyBatch(some, found, of, update, info);
    } else {
      if (!CountAbsent(some, of.counts, info, found)) return Status::kOutOfMemory;
      std::uint32_t present[kBatch];
      const std::uint32_t kept = KeepFound(some, found, present);
      ApplyBatch({keys.keys, present, kept}, found, of, update, info);
    }
  }
  return Status::kOk;
}

bool Shard::InsertAbsent(const ShardKeys& keys, std::uint32_t* found) {
  if (!Reserve(static_cast<std::size_t>(std::count(found, found + keys.count, kNoRow)))) return false;
  for (std::uint32_t i = 0; i < keys.count; ++i) {
    if (found[i] == kNoRow) found[i] = FindOrInsert(keys.key(i));
  }
  return true;
}

}  // namespace afo
