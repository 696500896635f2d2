#include "afo/psplus/window.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "support.h"

namespace afo::psplus::testing {
namespace {

// A client's memory, and a service that answers when told to.
struct Memory {
  explicit Memory(WindowOptions options = {}) : window(options), client(window.Enter(1, false).client) {}

  // The words of the answer; "?" while there is none.
  std::shared_ptr<std::string> Ask(std::uint64_t sequence) {
    auto got = std::make_shared<std::string>("?");
    const Respond respond([got](const Answer& answer) {
      *got = answer.code == Code::kOk ? std::string(answer.payload.pieces[0].data, answer.payload.pieces[0].size)
                                      : "failed " + std::to_string(static_cast<int>(answer.code));
    });
    client->Once(sequence, respond, [this, sequence](const Respond& way) {
      ++served;
      if (later) {
        open.push_back(way);
      } else {
        way(Answer::Of(PayloadOf("answer " + std::to_string(sequence))));
      }
    }, &repeated);
    return got;
  }

  Window window;
  std::shared_ptr<KnownClient> client;
  bool later = false;
  int served = 0;
  std::vector<Respond> open;
  Counter repeated;
};

TEST_CASE("what was answered is answered from memory") {
  Memory memory;
  CHECK(*memory.Ask(5) == "answer 5");
  CHECK(*memory.Ask(5) == "answer 5");
  CHECK(memory.served == 1);
  CHECK(memory.repeated.value() == 1);
}

TEST_CASE("what comes again while it is served gets the same answer") {
  Memory memory;
  memory.later = true;
  const auto first = memory.Ask(5), again = memory.Ask(5);
  CHECK(*first == "?");
  CHECK(memory.served == 1);
  memory.open.front()(Answer::Of(PayloadOf("late")));
  CHECK(*first == "late");
  CHECK(*again == "late");
  CHECK(*memory.Ask(5) == "late");
}

TEST_CASE("what comes again too often is not waited for by the oldest") {
  Memory memory;
  memory.later = true;
  std::vector<std::shared_ptr<std::string>> all;
  for (int i = 0; i < 9; ++i) all.push_back(memory.Ask(5));
  CHECK(*all[0] == "failed 4");
  CHECK(*all[1] == "?");
  memory.open.front()(Answer::Of(PayloadOf("late")));
  CHECK(*all[8] == "late");
}

TEST_CASE("a request without an answer is answered once the service has dropped it") {
  Memory memory;
  memory.later = true;
  const auto got = memory.Ask(5);
  memory.open.clear();
  CHECK(*got == "failed 5");
  CHECK(*memory.Ask(5) == "failed 5");
  CHECK(memory.served == 1);
}

TEST_CASE("what is too old is refused, never served") {
  WindowOptions options;
  options.requests = 4;
  Memory memory(options);
  for (std::uint64_t sequence = 1; sequence <= 6; ++sequence) memory.Ask(sequence);
  CHECK(*memory.Ask(3) == "answer 3");
  CHECK(*memory.Ask(2) == "failed 3");
  CHECK(*memory.Ask(1) == "failed 3");
  memory.client->Acknowledge(6);
  CHECK(*memory.Ask(5) == "failed 3");
  CHECK(*memory.Ask(6) == "answer 6");
  CHECK(memory.served == 6);
}

TEST_CASE("only so many of a client are served at a time") {
  WindowOptions options;
  options.requests = 2;
  Memory memory(options);
  memory.later = true;
  const auto first = memory.Ask(1), second = memory.Ask(2), third = memory.Ask(3);
  CHECK(*third == "failed 4");
  memory.open[0](Answer::Of(PayloadOf("x")));
  // The refusal is not remembered: it was not served.
  const auto fourth = memory.Ask(3);
  CHECK(*fourth == "?");
  CHECK(memory.served == 3);
}

TEST_CASE("what its client waits for no longer is forgotten once it is served") {
  Memory memory;
  memory.later = true;
  const auto got = memory.Ask(1);
  memory.client->Acknowledge(2);
  memory.open.front()(Answer::Of(PayloadOf("x")));
  CHECK(*got == "x");
  CHECK(*memory.Ask(1) == "failed 3");
  CHECK(memory.served == 1);
}

TEST_CASE("answers are remembered within bounds") {
  WindowOptions options;
  options.client_bytes = 20;
  Memory memory(options);
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) CHECK(memory.Ask(sequence)->size() == 8);
  CHECK(*memory.Ask(2) == "failed 3");
  CHECK(*memory.Ask(3) == "answer 3");
  options.client_bytes = 1000;
  options.bytes = 7;
  Memory none(options);
  CHECK(*none.Ask(1) == "answer 1");
  CHECK(*none.Ask(1) == "failed 3");
  CHECK(none.served == 1);
}

TEST_CASE("a client that went is remembered for a while") {
  WindowOptions options;
  Window window(options);
  const auto now = Window::Clock::now();
  CHECK(window.Enter(7, true).failure.code == Code::kUnknownClient);
  const auto client = window.Enter(7, false).client;
  CHECK(window.Enter(7, true).client == client);
  client->tickets()->Keep(1, std::make_shared<int>(5));
  window.Leave(7, now);
  window.Sweep(now + 2 * options.forget_after);
  CHECK(window.Enter(7, true).client == client);
  window.Leave(7, now);
  window.Leave(7, now);
  window.Sweep(now + options.forget_after - milliseconds(1));
  CHECK(window.clients() == 1);
  window.Sweep(now + options.forget_after);
  CHECK(window.clients() == 0);
  CHECK(window.Enter(7, true).failure.code == Code::kUnknownClient);
  CHECK(window.Enter(7, false).client != client);
}

TEST_CASE("a server knows only so many clients") {
  WindowOptions options;
  options.clients = 2;
  Window window(options);
  window.Enter(1, false);
  window.Enter(2, false);
  CHECK(window.Enter(3, false).failure.code == Code::kBusy);
  CHECK(window.Enter(2, false).client != nullptr);
}

TEST_CASE("tickets are kept by sequence, at most so many, until they go") {
  WindowOptions options;
  options.requests = 2;
  Window window(options);
  const auto tickets = window.Enter(1, false).client->tickets();
  const auto what = std::make_shared<int>(1);
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) tickets->Keep(sequence, what);
  CHECK(tickets->Find(1) == nullptr);
  CHECK(tickets->Find(2) == what);
  CHECK(tickets->Take(3) == what);
  CHECK(tickets->Find(3) == nullptr);
  window.ClearTickets();
  CHECK(tickets->Find(2) == nullptr);
  CHECK(what.use_count() == 1);
}

}  // namespace
}  // namespace afo::psplus::testing
