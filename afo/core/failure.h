// Why something that another process asked for was not done.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace afo {

enum class FailureKind : std::uint8_t {
  kNone,
  kInvalid,   // it cannot be
  kMissing,   // what it is about is not here: a server that has lost it
  kConflict,  // it is here, and otherwise
  kDamaged,   // bytes are not what was written
  kNoMemory,
};

struct [[nodiscard]] Failure {
  FailureKind kind = FailureKind::kNone;
  std::string words;  // a sentence without its ends

  bool happened() const { return kind != FailureKind::kNone; }
};

inline Failure Invalid(std::string words) { return {FailureKind::kInvalid, std::move(words)}; }
inline Failure Damaged(std::string words) { return {FailureKind::kDamaged, std::move(words)}; }
inline Failure NoMemory(std::string words) { return {FailureKind::kNoMemory, std::move(words)}; }

}  // namespace afo
