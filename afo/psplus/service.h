// What a server does with requests: the seam between the transport and the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "afo/psplus/buffer.h"
#include "afo/psplus/frame.h"
#include "afo/psplus/tickets.h"

namespace afo::psplus {

struct Request {
  // The service's own; statistics have each below kCountedKinds apart.
  std::uint32_t kind = 0;
  bool once = false;
  std::uint64_t client = 0;
  std::uint64_t sequence = 0;
  // Neither is ever empty.
  std::shared_ptr<const Buffer> payload;
  std::shared_ptr<Tickets> tickets;
};

struct Answer {
  Code code = Code::kOk;
  // Of a failure.
  std::string words;
  // Of a reply. A request with `once` has its kept: its reply is to be short.
  Payload payload;

  static Answer Of(Payload payload) { return {Code::kOk, {}, std::move(payload)}; }
  static Answer Failed(Code code, std::string words) { return {code, std::move(words), {}}; }
};

// The way back of one request, from any thread. Further calls do nothing; without any, once the last copy goes, the
// answer is kInternal.
class Respond {
 public:
  explicit Respond(std::function<void(Answer)> send);
  void operator()(Answer answer) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

class Service {
 public:
  virtual ~Service() = default;
  // Called by several loops at once. It either answers before it returns, or soon and from another thread: the loop's
  // other connections wait for its return. Requests with `once` come here once each, others again where an answer was
  // lost. An exception is answered as kInternal.
  virtual void Serve(Request request, Respond respond) = 0;
};

}  // namespace afo::psplus
