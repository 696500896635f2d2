// A list of calls as bytes: all that a message has done by a store, one call after another.
//
//   list    := calls u32 | call[calls] | sent u32 | (place u32 | type u32)[sent]                      little-endian
//   call    := function u16 | arguments u16 | ints u32 | floats u32 | texts u32
//              | place u32[arguments] | i64[ints] | f32[floats] | (length u32 | bytes)[texts]
//   place   := whose u32 >> 30 | number u32 & 0x3fffffff
//
// Arguments are parts of the message, results of earlier calls of the list, or what an earlier message left: its parts,
// and the results that were not sent. `type` is a part's on its way: its own, or bfloat16 of a float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afo/core/calls.h"
#include "afo/core/message.h"

namespace afo {

constexpr std::size_t kMostCalls = 1 << 12;

enum class Whose : std::uint32_t { kPart = 0, kResult = 1, kEarlierPart = 2, kEarlierResult = 3 };

struct Place {
  Whose whose{};
  std::uint32_t number = 0;
};

struct ListedCall {
  Call call;
  std::vector<Place> arguments;
};

struct Sent {
  std::uint32_t result = 0;
  PartType type{};
};

struct [[nodiscard]] CallList {
  std::vector<ListedCall> calls;
  std::vector<Sent> sent;
  // What is wrong with the bytes, as the end of a sentence; empty: nothing.
  std::string wrong;
};

// Reads bytes, whoever sent them.
CallList ParseCallList(std::string_view bytes);

}  // namespace afo
