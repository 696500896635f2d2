// Messages of calls as somebody may send them to a parameter server: lists of any bytes, and lists that were written and
// then changed. They are refused with words, or answered by a message of what they asked for; anything else ends the
// program. fuzz.sh has libFuzzer look for such bytes, the unit tests (store_service_test.cc) play random ones.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "afo/psplus/store_service.h"
#include "tests/core/call_list_writer.h"
#include "tests/core/some_calls.h"

namespace afo::testing {
namespace {

// A store may have larger ones, of memory that a test does not have.
constexpr std::int64_t kMostDense = 1 << 12, kMostCounted = 1 << 20;

void Require(bool holds) {
  if (!holds) std::abort();
}

// Two calls whose first leaves something to the second, as they are written.
std::string ListOf(const SomeCall& some, bool is_sent) {
  CallList list{{{some.call, PartPlaces(some.arguments.all.size())}}, {}, {}};
  list.calls.push_back({{Function::kMoveDense, {}, {}, {}}, {{Whose::kEarlierResult, 0}}});
  if (is_sent && some.results > 0) list.sent.push_back({0, PartType::kFloat32});
  return Written(list);
}

bool IsLarge(const Call& call) {
  const auto above = [&call](std::size_t at, std::int64_t most) { return call.ints.size() > at && call.ints[at] > most; };
  return (call.function == Function::kCreateDense && above(0, kMostDense)) ||
         (call.function == Function::kAddTable && (above(1, 64) || above(6, kMostCounted)));
}

void CheckList(const std::string& bytes, const CallList& list) {
  if (!list.wrong.empty()) {
    Require(list.calls.empty() && list.sent.empty());
    return;
  }
  Require(list.calls.size() <= kMostCalls && list.sent.size() <= kMostParts);
  Require(Written(list) == bytes);
}

void CheckAnswer(const psplus::Answer& answer, const CallList& list) {
  if (answer.code != psplus::Code::kOk) {
    Require(!answer.words.empty() && psplus::CodeOf(psplus::KindOf(answer.code)) == answer.code);
    return;
  }
  std::string reply;
  for (const psplus::Piece& piece : answer.payload.pieces) reply.append(piece.data, piece.size);
  const auto buffer = BufferOf(reply);
  const ParsedMessage found = ParseMessage(MessageKind::kAnswer, buffer->data(), buffer->size(), Guard::kCarrier);
  Require(found.wrong.empty() && found.parts.size() == list.sent.size());
  for (std::size_t i = 0; i < found.parts.size(); ++i) Require(found.parts[i].type == list.sent[i].type);
}

}  // namespace

// The first byte: what kind of message it is, whether it must not be done twice, whether one came before, and whether
// the list is what follows, or one that was written and is changed. The second: the call that is its own, or its parts.
void PlayMessages(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return;
  const std::vector<SomeCall> calls = SomeCalls();
  const SomeCall& some = calls[data[1] % calls.size()];
  std::string bytes(reinterpret_cast<const char*>(data + 2), size - 2);
  if ((data[0] & 1) != 0) {
    const std::string changes = std::exchange(bytes, ListOf(some, (data[0] & 2) != 0));
    for (std::size_t i = 0; i + 1 < changes.size() && i < 8; i += 2) {
      bytes[static_cast<std::uint8_t>(changes[i]) % bytes.size()] ^= changes[i + 1];
    }
  }
  const CallList list = ParseCallList(bytes);
  CheckList(bytes, list);
  if (std::any_of(list.calls.begin(), list.calls.end(), [](const auto& each) { return IsLarge(each.call); })) return;

  psplus::StoreService service(SomeStore());
  const auto tickets = std::make_shared<psplus::Tickets>(2);
  const auto serve = [&](const std::string& message, std::uint32_t kind, bool once, std::uint64_t sequence) {
    std::optional<psplus::Answer> answer;
    service.Serve({kind, once, 1, sequence, BufferOf(message), tickets},
                  psplus::Respond([&answer](psplus::Answer given) { answer = std::move(given); }));
    Require(answer.has_value());
    return *answer;
  };
  const CallList first{{{{Function::kReadDense, {}, {}, {}}, {}}}, {}, {}};
  const Arguments none;
  Require(serve(MessageOf(MessageKind::kPull, Written(first), 0, none), psplus::kPull, false, 1).code ==
          psplus::Code::kOk);
  const bool pushes = (data[0] & 4) != 0, once = (data[0] & 8) != 0;
  const std::int64_t earlier = (data[0] & 16) != 0 ? 0 : 1;
  const std::string message =
      MessageOf(pushes ? MessageKind::kPush : MessageKind::kPull, bytes, earlier, some.arguments);
  CheckAnswer(serve(message, pushes ? psplus::kPush : psplus::kPull, once, 2), list);
  // What it left, if anything: named once.
  Require(!once || tickets->Find(2) == nullptr);
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::PlayMessages(data, size);
  return 0;
}
#endif
