// Progress of a training job on one server: the step, how far each split was applied, and the model's own state, all
// under one lock, so that what is read is of one instant and a step is applied as a whole.
//
// Splits, types and dimensions come from other processes: everything is checked before anything changes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "afo/core/message.h"

namespace afo {

// Splits that a job can have: their positions take 1.5 GiB at most, less than the names of as many files. Without a bound
// a number that somebody made up could take all memory.
constexpr std::int64_t kMostSplits = 1 << 26;
// Where steps end, so that none overflows.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 62;

// How far a split was applied. Without one: it was not begun.
struct Position {
  std::int64_t epoch = -1;
  std::int64_t count = 0;  // of its samples
  std::int64_t ids = 0;    // xor of these samples' hashed ids, as bits

  bool operator==(const Position&) const = default;
};
static_assert(sizeof(Position) == 3 * sizeof(std::int64_t), "a row of a tensor");

// An array of the model's state, of a type that a step can add to.
struct StateArray {
  PartType type;
  std::vector<std::int64_t> dims;
  std::vector<char> bytes;

  bool operator==(const StateArray&) const = default;
};

struct ProgressState {
  std::int64_t step = 0;
  std::vector<std::int64_t> splits;  // of the positions
  std::vector<Position> positions;
  std::vector<StateArray> arrays;
};

// `wrong`, here and below: what was wrong with the arguments, as a sentence without its ends; empty: nothing.
struct [[nodiscard]] ReadProgress {
  ProgressState state;
  std::string wrong;
};

struct [[nodiscard]] AdvancedStep {
  std::int64_t step = 0;
  std::string wrong;
};

// Whether arrays of the model's state can be of this type: no bool, and none that rounds sums to three digits.
bool IsStateType(PartType type);

// Positions by the number of the split. Pages of them come as they are written to, so that one large number costs a
// page, and half a megabyte for where pages are.
class PositionTable {
 public:
  // Preconditions: the split is in [0, kMostSplits).
  Position At(std::int64_t split) const;
  void Set(std::int64_t split, const Position& position);
  // Those that were begun, by ascending split.
  void AppendBegun(ProgressState* to) const;
  std::size_t bytes() const;

 private:
  static constexpr std::int64_t kPage = 1 << 10;
  using Page = std::array<Position, kPage>;

  std::vector<std::unique_ptr<Page>> pages_;
};

// Thread-safe.
class Progress {
 public:
  // Positions of these splits, the step and the arrays. Those of splits that were not begun are Position{}.
  ReadProgress Read(std::span<const std::int64_t> splits) const;
  // Writes positions, adds one to the step and to each array; of a split that occurs twice the last position stays.
  // Returns the step then.
  AdvancedStep Advance(std::span<const std::int64_t> splits, std::span<const Position> positions,
                       std::span<const MessagePart> added);

  // Everything, the splits that were begun ascending.
  ProgressState Export() const;
  // Replaces everything, the number and types of the arrays too. Returns what is wrong, as above.
  [[nodiscard]] std::string Import(std::int64_t step, std::span<const std::int64_t> splits,
                                   std::span<const Position> positions, std::span<const MessagePart> arrays);

  std::size_t bytes() const;

 private:
  // The lock is held.
  std::string WrongSums(std::span<const MessagePart> added) const;

  mutable std::mutex mutex_;
  std::int64_t step_ = 0;
  PositionTable positions_;
  std::vector<StateArray> arrays_;
};

}  // namespace afo
