#include "afo/psplus/service.h"

#include <atomic>
#include <utility>

namespace afo::psplus {

struct Respond::State {
  std::function<void(Answer)> send;
  std::atomic<bool> done{false};

  ~State() {
    if (!done) send(Answer::Failed(Code::kInternal, "the service gave no answer"));
  }
};

Respond::Respond(std::function<void(Answer)> send) : state_(std::make_shared<State>()) { state_->send = std::move(send); }

void Respond::operator()(Answer answer) const {
  if (!state_->done.exchange(true)) std::exchange(state_->send, nullptr)(std::move(answer));
}

}  // namespace afo::psplus
