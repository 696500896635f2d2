// What a parameter server does with requests: it runs the calls of a message on its store, and has others put down at
// the desk.
//
// A request that runs calls is a message (afo/core/message.h) of
//   0  the list of calls (afo/core/call_list.h)
//   1  sequence of the earlier message whose parts and results it names, or 0: int64 scalar
//   2  and on: the parts that the calls name
// Its reply has the results that are sent, each once. What is not sent of a pull stays with the parts, under the request's
// sequence, until a later message names it; of one with `once`, and of other requests, nothing stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "afo/core/failure.h"
#include "afo/core/store.h"
#include "afo/psplus/service.h"

namespace afo::psplus {

// A message, either way: as much as TensorFlow's servers take.
inline constexpr std::size_t kMostMessageBytes = std::size_t{1} << 31;

// Kinds of requests, the service's own.
enum RequestKind : std::uint32_t {
  kPull = 1,     // calls that lead to an answer
  kPush = 2,     // calls that change what was pulled
  kControl = 3,  // what is asked outside of steps
  kDesk = 4,     // words for the desk: the asker's name up to a zero, then the request
};

class StoreService : public Service {
 public:
  explicit StoreService(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  void Serve(Request request, Respond respond) override;

 private:
  std::shared_ptr<Store> store_;
};

// The code of a failure of a call, and back.
inline Code CodeOf(FailureKind kind) { return static_cast<Code>(kServiceCodes + static_cast<std::uint32_t>(kind)); }
inline FailureKind KindOf(Code code) {
  const std::uint32_t number = static_cast<std::uint32_t>(code) - kServiceCodes;
  return number > static_cast<std::uint32_t>(FailureKind::kNoMemory) ? FailureKind::kInvalid
                                                                     : static_cast<FailureKind>(number);
}

}  // namespace afo::psplus
