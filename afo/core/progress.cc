#include "afo/core/progress.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace afo {
namespace {

std::string WrongSplits(std::span<const std::int64_t> splits) {
  for (const std::int64_t split : splits) {
    if (split < 0 || split >= kMostSplits) {
      return "split " + std::to_string(split) + " is not between 0 and " + std::to_string(kMostSplits - 1);
    }
  }
  return {};
}

std::string WrongPositions(std::span<const std::int64_t> splits, std::span<const Position> positions) {
  if (splits.size() != positions.size()) {
    return "there are " + std::to_string(positions.size()) + " positions for " + std::to_string(splits.size()) +
           " splits";
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i].epoch < 0 || positions[i].count < 0) {
      return "the position of split " + std::to_string(splits[i]) + " has a negative epoch or count";
    }
  }
  return WrongSplits(splits);
}

std::string WrongArray(std::size_t number, const char* what) {
  return "array " + std::to_string(number) + " of the model's state " + what;
}

bool HasBytesOfShape(const MessagePart& array) {
  std::size_t bytes = SizeOf(array.type);
  for (const std::int64_t dim : array.dims) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) return false;
  }
  return bytes == array.bytes && !array.narrows;
}

std::string WrongArrays(std::span<const MessagePart> arrays) {
  if (arrays.size() > kMostParts) return "there are more arrays of the model's state than a message can have";
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!IsStateType(arrays[i].type)) return WrongArray(i, "has a type that cannot be added to");
    if (arrays[i].dims.size() > kMostDims) return WrongArray(i, "has too many dimensions");
    if (!HasBytesOfShape(arrays[i])) return WrongArray(i, "has other bytes than its shape says");
  }
  return {};
}

template <typename Number>
void AddNumbers(const char* added, std::size_t bytes, char* to) {
  for (std::size_t at = 0; at < bytes; at += sizeof(Number)) {
    Number sum, more;
    std::memcpy(&sum, to + at, sizeof(Number));
    std::memcpy(&more, added + at, sizeof(Number));
    sum = static_cast<Number>(sum + more);
    std::memcpy(to + at, &sum, sizeof(Number));
  }
}

// Integers wrap around, signed ones too: as unsigned ones of their size, for C++ does not say what those do.
void AddArray(const MessagePart& added, StateArray* to) {
  if (added.type == PartType::kFloat32) return AddNumbers<float>(added.data, added.bytes, to->bytes.data());
  if (added.type == PartType::kFloat64) return AddNumbers<double>(added.data, added.bytes, to->bytes.data());
  switch (SizeOf(added.type)) {
    case 1:
      return AddNumbers<std::uint8_t>(added.data, added.bytes, to->bytes.data());
    case 2:
      return AddNumbers<std::uint16_t>(added.data, added.bytes, to->bytes.data());
    case 4:
      return AddNumbers<std::uint32_t>(added.data, added.bytes, to->bytes.data());
    default:
      return AddNumbers<std::uint64_t>(added.data, added.bytes, to->bytes.data());
  }
}

}  // namespace

bool IsStateType(PartType type) {
  return SizeOf(type) > 0 && type != PartType::kBool && type != PartType::kBfloat16 && type != PartType::kFloat16;
}

Position PositionTable::At(std::int64_t split) const {
  const auto page = static_cast<std::size_t>(split / kPage);
  return page < pages_.size() && pages_[page] != nullptr ? (*pages_[page])[split % kPage] : Position{};
}

void PositionTable::Set(std::int64_t split, const Position& position) {
  const auto page = static_cast<std::size_t>(split / kPage);
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (pages_[page] == nullptr) pages_[page] = std::make_unique<Page>();
  (*pages_[page])[split % kPage] = position;
}

void PositionTable::AppendBegun(ProgressState* to) const {
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    if (pages_[page] == nullptr) continue;
    for (std::int64_t i = 0; i < kPage; ++i) {
      const Position& position = (*pages_[page])[i];
      if (position == Position{}) continue;
      to->splits.push_back(static_cast<std::int64_t>(page) * kPage + i);
      to->positions.push_back(position);
    }
  }
}

std::size_t PositionTable::bytes() const {
  const auto held = std::count_if(pages_.begin(), pages_.end(), [](const auto& page) { return page != nullptr; });
  return pages_.capacity() * sizeof(pages_[0]) + static_cast<std::size_t>(held) * sizeof(Page);
}

ReadProgress Progress::Read(std::span<const std::int64_t> splits) const {
  ReadProgress read;
  read.wrong = WrongSplits(splits);
  if (!read.wrong.empty()) return read;
  read.state.splits.assign(splits.begin(), splits.end());
  read.state.positions.reserve(splits.size());
  const std::lock_guard lock(mutex_);
  read.state.step = step_;
  for (const std::int64_t split : splits) read.state.positions.push_back(positions_.At(split));
  read.state.arrays = arrays_;
  return read;
}

AdvancedStep Progress::Advance(std::span<const std::int64_t> splits, std::span<const Position> positions,
                               std::span<const MessagePart> added) {
  std::string wrong = WrongPositions(splits, positions);
  if (wrong.empty()) wrong = WrongArrays(added);
  if (!wrong.empty()) return {0, std::move(wrong)};
  const std::lock_guard lock(mutex_);
  wrong = WrongSums(added);
  if (!wrong.empty()) return {0, std::move(wrong)};
  for (std::size_t i = 0; i < splits.size(); ++i) positions_.Set(splits[i], positions[i]);
  for (std::size_t i = 0; i < added.size(); ++i) AddArray(added[i], &arrays_[i]);
  return {++step_, {}};
}

std::string Progress::WrongSums(std::span<const MessagePart> added) const {
  if (step_ >= kMostSteps) return "there are too many steps";
  if (added.size() != arrays_.size()) {
    return "something is added to " + std::to_string(added.size()) + " arrays of the model's state, where there are " +
           std::to_string(arrays_.size());
  }
  for (std::size_t i = 0; i < added.size(); ++i) {
    const bool fits = added[i].type == arrays_[i].type && added[i].dims == arrays_[i].dims;
    if (!fits) return WrongArray(i, "is of another type or shape than what is added to it");
  }
  return {};
}

ProgressState Progress::Export() const {
  ProgressState state;
  const std::lock_guard lock(mutex_);
  state.step = step_;
  positions_.AppendBegun(&state);
  state.arrays = arrays_;
  return state;
}

std::string Progress::Import(std::int64_t step, std::span<const std::int64_t> splits,
                             std::span<const Position> positions, std::span<const MessagePart> arrays) {
  if (step < 0 || step > kMostSteps) return "step " + std::to_string(step) + " is out of its range";
  std::string wrong = WrongPositions(splits, positions);
  if (wrong.empty()) wrong = WrongArrays(arrays);
  if (!wrong.empty()) return wrong;
  PositionTable begun;
  for (std::size_t i = 0; i < splits.size(); ++i) begun.Set(splits[i], positions[i]);
  std::vector<StateArray> copies;
  for (const MessagePart& array : arrays) {
    copies.push_back({array.type, array.dims, {array.data, array.data + array.bytes}});
  }
  const std::lock_guard lock(mutex_);
  step_ = step;
  std::swap(positions_, begun);
  std::swap(arrays_, copies);
  return {};
}

std::size_t Progress::bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t all = positions_.bytes();
  for (const StateArray& array : arrays_) all += array.bytes.capacity();
  return all;
}

}  // namespace afo
