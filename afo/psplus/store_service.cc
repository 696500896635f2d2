#include "afo/psplus/store_service.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afo/core/call_list.h"
#include "afo/core/desk.h"
#include "afo/psplus/message_payload.h"

namespace afo::psplus {
namespace {

constexpr std::size_t kOwnParts = 2;
// An array and the memory that it lies in.
struct Held {
  MessagePart part;
  std::shared_ptr<const Buffer> memory;
};

std::shared_ptr<Buffer> Memory(std::size_t bytes) { return Buffer::Of(std::max<std::size_t>(bytes, 1)); }

// Results of calls, each in memory of its own, from where it is sent.
class HeldResults : public Results {
 public:
  char* Allocate(PartType type, std::span<const std::int64_t> dims) override {
    std::size_t bytes = SizeOf(type);
    for (const std::int64_t dim : dims) {
      if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) return nullptr;
    }
    if (bytes > room_) return nullptr;
    std::shared_ptr<Buffer> memory = Memory(bytes);
    if (memory == nullptr) return nullptr;
    room_ -= bytes;
    char* data = memory->data();
    held.push_back({{type, {dims.begin(), dims.end()}, data, bytes}, std::move(memory)});
    return data;
  }

  std::vector<Held> held;

 private:
  // Of all results of a message: a list may name the same weights a thousand times.
  std::size_t room_ = kMostMessageBytes;
};

// What an earlier message left.
struct Ticket {
  std::shared_ptr<const Buffer> payload;
  std::vector<MessagePart> parts;
  std::vector<Held> results;
};

// A message while its calls are run.
struct Running {
  CallList list;
  std::vector<MessagePart> parts;
  HeldResults results;
  std::shared_ptr<Ticket> earlier;
  // What came short, in float32: by where it lies, each once, however many calls name it.
  std::map<const char*, Held> widened;
};

// As it is, or widened: a call reads float32 where bfloat16 came, but for what it takes itself.
MessagePart Wide(const MessagePart& part, Running* running, afo::Failure* failure) {
  if (part.type != PartType::kBfloat16) return part;
  if (part.bytes == 0) return {PartType::kFloat32, part.dims, part.data, 0};
  const auto [found, is_new] = running->widened.try_emplace(part.data);
  if (!is_new) return found->second.part;
  std::shared_ptr<Buffer> memory = Memory(part.bytes * 2);
  if (memory == nullptr) {
    *failure = NoMemory("no memory is left for a gradient");
    return part;
  }
  Widen(reinterpret_cast<const std::uint16_t*>(part.data), part.bytes / 2, reinterpret_cast<float*>(memory->data()),
        Serial);
  found->second = {{PartType::kFloat32, part.dims, memory->data(), part.bytes * 2}, std::move(memory)};
  return found->second.part;
}

const MessagePart* Find(const Running& running, const Place& place) {
  const auto at = [number = place.number](const auto& parts) {
    return number < parts.size() ? &parts[number] : nullptr;
  };
  const auto held = [number = place.number](const std::vector<Held>& results) {
    return number < results.size() && results[number].memory != nullptr ? &results[number].part : nullptr;
  };
  switch (place.whose) {
    case Whose::kPart:
      return at(running.parts);
    case Whose::kResult:
      return held(running.results.held);
    case Whose::kEarlierPart:
      return running.earlier == nullptr ? nullptr : at(running.earlier->parts);
    case Whose::kEarlierResult:
      return running.earlier == nullptr ? nullptr : held(running.earlier->results);
  }
  return nullptr;
}

afo::Failure RunOne(const ListedCall& listed, Store* store, Running* running) {
  std::vector<MessagePart> arguments;
  afo::Failure failure;
  for (const Place& place : listed.arguments) {
    const MessagePart* part = Find(*running, place);
    if (part == nullptr) return Invalid("a call names an argument that is not there");
    arguments.push_back(Wide(*part, running, &failure));
  }
  if (failure.happened()) return failure;
  return Run(listed.call, arguments, store, &running->results, Serial);
}

// Reads a message; an error says what is wrong with it.
afo::Failure Read(const Request& request, Running* running) {
  const MessageKind kind = request.kind == kPush ? MessageKind::kPush : MessageKind::kPull;
  ParsedMessage message = ParseMessage(kind, request.payload->data(), request.payload->size(), Guard::kCarrier);
  if (!message.wrong.empty()) return Damaged("a message of a training step " + message.wrong);
  const std::vector<MessagePart>& parts = message.parts;
  if (parts.size() < kOwnParts || parts[0].type != PartType::kUint8 || parts[1].type != PartType::kInt64 ||
      !parts[1].dims.empty()) {
    return Invalid("a message has no list of calls");
  }
  running->list = ParseCallList({parts[0].data, parts[0].bytes});
  if (!running->list.wrong.empty()) return Damaged("a list of calls " + running->list.wrong);
  std::int64_t earlier;
  std::memcpy(&earlier, parts[1].data, sizeof(earlier));
  if (earlier < 0) return Invalid("a message names one before that cannot be");
  if (earlier > 0) {
    running->earlier = std::static_pointer_cast<Ticket>(request.tickets->Take(static_cast<std::uint64_t>(earlier)));
    if (running->earlier == nullptr) {
      return {FailureKind::kMissing, "what was pulled before is not known here any more"};
    }
  }
  running->parts.assign(message.parts.begin() + kOwnParts, message.parts.end());
  return {};
}

// What a reply is sent from.
struct Outgoing {
  std::string head;
  std::vector<std::shared_ptr<const Buffer>> memory;
};

// A part of a reply, short where it is to be, out of the results.
afo::Failure AddSent(const Sent& sent, std::vector<Held>* results, std::vector<MessagePart>* parts,
                     Outgoing* outgoing) {
  if (sent.result >= results->size()) return Invalid("a result is to be sent that is not there");
  auto [part, memory] = std::exchange((*results)[sent.result], {});
  if (memory == nullptr) return Invalid("a result is to be sent twice");
  if (part.type == PartType::kFloat32 && sent.type == PartType::kBfloat16) {
    std::shared_ptr<Buffer> narrowed = Memory(part.bytes / 2);
    if (narrowed == nullptr) return NoMemory("no memory is left for an answer");
    Narrow(reinterpret_cast<const float*>(part.data), part.bytes / 4,
           reinterpret_cast<std::uint16_t*>(narrowed->data()), Serial);
    part = {PartType::kBfloat16, part.dims, narrowed->data(), part.bytes / 2};
    memory = std::move(narrowed);
  } else if (sent.type != part.type) {
    return Invalid("a result goes as it is, or a float as bfloat16");
  }
  parts->push_back(std::move(part));
  outgoing->memory.push_back(std::move(memory));
  return {};
}

// What was not sent stays, if there is any, even without elements: a later message names it.
void Leave(const Request& request, Running* running) {
  std::vector<Held>& results = running->results.held;
  if (std::none_of(results.begin(), results.end(), [](const Held& each) { return each.memory != nullptr; })) return;
  auto ticket = std::make_shared<Ticket>();
  ticket->payload = request.payload;
  ticket->parts = std::move(running->parts);
  ticket->results = std::move(results);
  request.tickets->Keep(request.sequence, std::move(ticket));
}

afo::Failure ServeCalls(const Request& request, Store* store, Payload* payload) {
  Running running;
  if (afo::Failure failure = Read(request, &running); failure.happened()) return failure;
  for (const ListedCall& listed : running.list.calls) {
    if (afo::Failure failure = RunOne(listed, store, &running); failure.happened()) return failure;
  }
  std::vector<MessagePart> parts;
  auto outgoing = std::make_shared<Outgoing>();
  for (const Sent& sent : running.list.sent) {
    afo::Failure failure = AddSent(sent, &running.results.held, &parts, outgoing.get());
    if (failure.happened()) return failure;
  }
  if (request.kind == kPull && !request.once) Leave(request, &running);
  *payload = PayloadOf(MessageKind::kAnswer, parts, &outgoing->head, outgoing);
  return {};
}

void PutAtDesk(const Request& request, std::shared_ptr<Store> store, Respond respond) {
  const std::string_view words(request.payload->data(), request.payload->size());
  const std::size_t end = words.find('\0');
  if (end == std::string_view::npos) {
    return respond(Answer::Failed(CodeOf(FailureKind::kInvalid), "a request to the desk has no asker"));
  }
  auto put = std::make_shared<DeskRequest>();
  put->store = std::move(store);
  put->asker = words.substr(0, end);
  put->words = words.substr(end + 1);
  put->answer = [respond](const std::string& answer) {
    auto text = std::make_shared<std::string>(answer);
    respond(Answer::Of({{{text->data(), text->size()}}, text}));
  };
  if (Desk::OfProcess().Put(put)) return;
  respond(Answer::Failed(CodeOf(FailureKind::kMissing), "nobody in this server's process saves or loads tables"));
}

}  // namespace

void StoreService::Serve(Request request, Respond respond) {
  if (request.kind == kDesk) return PutAtDesk(request, store_, std::move(respond));
  if (request.kind < kPull || request.kind > kControl) {
    return respond(Answer::Failed(CodeOf(FailureKind::kInvalid), "there is no such kind of request"));
  }
  Payload payload;
  afo::Failure failure = ServeCalls(request, store_.get(), &payload);
  respond(failure.happened() ? Answer::Failed(CodeOf(failure.kind), std::move(failure.words))
                             : Answer::Of(std::move(payload)));
}

}  // namespace afo::psplus
