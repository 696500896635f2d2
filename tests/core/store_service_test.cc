// What a parameter server does with messages: of those who write them well, and of those who do not.
#include "afo/psplus/store_service.h"

#include <doctest/doctest.h>

#include <optional>
#include <random>

#include "tests/core/call_list_writer.h"
#include "tests/core/some_calls.h"

namespace afo::testing {

void PlayMessages(const std::uint8_t* data, std::size_t size);

namespace {

using psplus::Answer;
using psplus::Tickets;

constexpr FailureKind kDone = FailureKind::kNone;

// A server, and one client of it.
struct Side {
  std::shared_ptr<Store> store = SomeStore();
  std::shared_ptr<Tickets> tickets = std::make_shared<Tickets>(4);
  std::uint64_t sequence = 0;
  std::vector<Array> sent;
  std::string words;

  FailureKind Send(std::uint32_t kind, const std::string& bytes, bool once = false) {
    psplus::StoreService service(store);
    std::optional<Answer> answer;
    service.Serve({kind, once, 1, ++sequence, BufferOf(bytes), tickets},
                  psplus::Respond([&answer](Answer given) { answer = std::move(given); }));
    REQUIRE(answer.has_value());
    words = answer->words;
    sent.clear();
    if (answer->code != psplus::Code::kOk) return psplus::KindOf(answer->code);
    std::string reply;
    for (const psplus::Piece& piece : answer->payload.pieces) reply.append(piece.data, piece.size);
    const auto buffer = BufferOf(reply);
    const ParsedMessage found = ParseMessage(MessageKind::kAnswer, buffer->data(), buffer->size(), Guard::kCarrier);
    REQUIRE(found.wrong == "");
    for (const MessagePart& part : found.parts) sent.emplace_back(part.type, part.dims, part.data);
    return kDone;
  }
  FailureKind Pull(const CallList& list, const Arguments& arguments = Arguments(), std::int64_t earlier = 0,
                   bool once = false) {
    return Send(psplus::kPull, MessageOf(MessageKind::kPull, Written(list), earlier, arguments), once);
  }
  FailureKind Push(const CallList& list, const Arguments& arguments, std::int64_t earlier) {
    return Send(psplus::kPush, MessageOf(MessageKind::kPush, Written(list), earlier, arguments), true);
  }
};

ListedCall ReadDense() { return {{Function::kReadDense, {}, {}, {}}, {}}; }
ListedCall Lookup() { return {{Function::kLookupRows, {0, 0, 3}, {}, {}}, PartPlaces(2)}; }
Arguments LookupArguments() {
  return Arguments(Vector(std::vector<std::int64_t>{1, 9, 7}), Vector(std::vector<std::int32_t>{0, 2, 3}));
}
ListedCall ApplyDense(Place gradient, Place rate) {
  return {{Function::kApplyDense, {}, {}, {}}, {gradient, rate}};
}

std::vector<float> DenseOf(Side* side) {
  REQUIRE(side->Pull({{ReadDense()}, {{0, PartType::kFloat32}}, {}}) == kDone);
  return side->sent.at(0).values<float>();
}

}  // namespace

TEST_CASE("every call is done by messages as it is without them") {
  std::vector<SomeCall> calls = SomeCalls();
  for (const SomeCall& some : calls) {
    CAPTURE(static_cast<int>(some.call.function));
    Side side;
    const std::unique_ptr<Store> other = SomeStore();
    const Done done = Do(other.get(), some.call, some.arguments);
    CallList list{{{some.call, PartPlaces(some.arguments.all.size())}}, {}, {}};
    for (std::uint32_t i = 0; i < done.results.size(); ++i) list.sent.push_back({i, done.results[i].type});
    CHECK(side.Pull(list, some.arguments) == done.failure.kind);
    REQUIRE(side.sent.size() == done.results.size());
    for (std::size_t i = 0; i < done.results.size(); ++i) {
      const Array& expected = done.results[i];
      CHECK(side.sent[i].dims == expected.dims);
      CHECK((expected.bytes == 0 || std::memcmp(side.sent[i].data.get(), expected.data.get(), expected.bytes) == 0));
    }
    CHECK(ContentOf(side.store.get()) == ContentOf(other.get()));
  }
}

TEST_CASE("a message without a list of calls is refused") {
  Side side;
  const Array list(PartType::kUint8, {4}), longs(PartType::kInt64, {1}), floats(PartType::kFloat32, {});
  const std::int64_t none = 0;
  const MessagePart earlier{PartType::kInt64, {}, reinterpret_cast<const char*>(&none), sizeof(none)};
  const auto refused = [&side](const std::vector<MessagePart>& parts) {
    return side.Send(psplus::kPull, MessageOf(MessageKind::kPull, parts)) == FailureKind::kInvalid;
  };
  CHECK(refused({}));
  CHECK(refused({list.part()}));
  CHECK(refused({longs.part(), earlier}));
  CHECK(refused({list.part(), longs.part()}));
  CHECK(refused({list.part(), floats.part()}));
  CHECK_FALSE(refused({list.part(), earlier}));
  CHECK(side.Pull({}, Arguments(), -1) == FailureKind::kInvalid);
  CHECK(side.Send(0, "x") == FailureKind::kInvalid);
  CHECK(side.Send(5, "x") == FailureKind::kInvalid);
}

TEST_CASE("a damaged message is refused, and so is one of another kind") {
  Side side;
  const std::string whole = MessageOf(MessageKind::kPull, Written({{Lookup()}, {}, {}}), 0, LookupArguments());
  CHECK(side.Send(psplus::kPush, whole) == FailureKind::kDamaged);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    REQUIRE(side.Send(psplus::kPull, whole.substr(0, size)) == FailureKind::kDamaged);
  }
  CHECK(side.Send(psplus::kPull, whole) == kDone);
}

TEST_CASE("a damaged list is refused whole") {
  Side side;
  const std::string before = ContentOf(side.store.get());
  const CallList list{{{TableCall(9, 2, 0.5f), {}}, Lookup()}, {{0, PartType::kFloat32}}, {}};
  const std::string bytes = Written(list);
  const auto kind_of = [&side](const std::string& changed) {
    return side.Send(psplus::kPull, MessageOf(MessageKind::kPull, changed, 0, LookupArguments()));
  };
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    REQUIRE(kind_of(bytes.substr(0, size)) == FailureKind::kDamaged);
  }
  CHECK(kind_of(bytes + "x") == FailureKind::kDamaged);
  // Counts: of calls, ints, floats, texts, and of what is sent.
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{12}, std::size_t{16}, bytes.size() - 12}) {
    for (const std::uint32_t count : {0x7fffffffu, 0x80000001u, 0xffffffffu}) {
      std::string changed = bytes;
      std::memcpy(changed.data() + at, &count, sizeof(count));
      CHECK(kind_of(changed) == FailureKind::kDamaged);
    }
  }
  // The type of what is sent: a float's number in its lowest byte alone.
  std::string changed = bytes;
  changed[bytes.size() - 3] = 1;
  CHECK(kind_of(changed) == FailureKind::kDamaged);
  CallList many{{}, std::vector<Sent>(kMostParts + 1, Sent{0, PartType::kFloat32}), {}};
  CHECK(kind_of(Written(many)) == FailureKind::kDamaged);
  CHECK(kind_of(Written({std::vector<ListedCall>(kMostCalls + 1, ReadDense()), {}, {}})) == FailureKind::kDamaged);
  CHECK(ContentOf(side.store.get()) == before);
}

TEST_CASE("a function that there is not is refused") {
  Side side;
  for (const int number : {0, kLastFunction + 1, 65535}) {
    CHECK(side.Pull({{{{static_cast<Function>(number), {}, {}, {}}, {}}}, {}, {}}) == FailureKind::kInvalid);
  }
}

TEST_CASE("an argument has to be there before its call") {
  Side side;
  REQUIRE(side.Pull({{Lookup()}, {{0, PartType::kFloat32}}, {}}, LookupArguments()) == kDone);
  const auto names = [&side](Place place, std::int64_t earlier) {
    const Arguments one(Vector(std::vector<std::int64_t>{1}));
    return side.Pull({{{{Function::kRemoveRows, {0}, {}, {}}, {place}}}, {}, {}}, one, earlier);
  };
  CHECK(names({Whose::kPart, 0}, 0) == kDone);
  CHECK(names({Whose::kPart, 1}, 0) == FailureKind::kInvalid);
  CHECK(names({Whose::kPart, (1u << 30) - 1}, 0) == FailureKind::kInvalid);
  // Its own.
  CHECK(names({Whose::kResult, 0}, 0) == FailureKind::kInvalid);
  CHECK(names({Whose::kEarlierPart, 0}, 0) == FailureKind::kInvalid);
  CHECK(names({Whose::kEarlierResult, 1}, 0) == FailureKind::kInvalid);
  const auto after_lookup = [&](Place place) {
    REQUIRE(side.Pull({{Lookup()}, {{0, PartType::kFloat32}}, {}}, LookupArguments()) == kDone);
    return names(place, static_cast<std::int64_t>(side.sequence));
  };
  CHECK(after_lookup({Whose::kEarlierPart, 0}) == kDone);
  CHECK(after_lookup({Whose::kEarlierPart, 2}) == FailureKind::kInvalid);
  // Sent, and so not kept; the numbers of the rows; none.
  for (const std::uint32_t number : {0u, 1u, 2u}) {
    CHECK(after_lookup({Whose::kEarlierResult, number}) == FailureKind::kInvalid);
    CHECK((side.words == "a call names an argument that is not there") == (number != 1));
  }
}

TEST_CASE("what was left is its client's, and is named once") {
  Side side, other;
  other.store = side.store;
  const CallList push{{{{Function::kRemoveRows, {0}, {}, {}}, {{Whose::kEarlierPart, 0}}}}, {}, {}};
  REQUIRE(side.Pull({{Lookup()}, {}, {}}, LookupArguments()) == kDone);
  CHECK(other.Push(push, Arguments(), 1) == FailureKind::kMissing);
  CHECK(side.Push(push, Arguments(), 2) == FailureKind::kMissing);
  CHECK(side.Push(push, Arguments(), 1) == kDone);
  CHECK(side.Push(push, Arguments(), 1) == FailureKind::kMissing);
  // Of more than there is room for, the first ones go.
  const auto first = static_cast<std::int64_t>(side.sequence) + 1;
  for (int i = 0; i < 5; ++i) REQUIRE(side.Pull({{Lookup()}, {}, {}}, LookupArguments()) == kDone);
  CHECK(side.Push(push, Arguments(), first) == FailureKind::kMissing);
  CHECK(side.Push(push, Arguments(), first + 1) == kDone);
}

TEST_CASE("what must not be done twice leaves nothing") {
  Side side;
  REQUIRE(side.Pull({{Lookup()}, {{0, PartType::kFloat32}}, {}}, LookupArguments(), 0, true) == kDone);
  CHECK(side.sent.size() == 1);
  CHECK(side.tickets->Find(side.sequence) == nullptr);
  // Nor does what has no results.
  REQUIRE(side.Pull({{{{Function::kClearTables, {0}, {}, {}}, {}}}, {}, {}}) == kDone);
  CHECK(side.tickets->Find(side.sequence) == nullptr);
}

TEST_CASE("results are sent once, as they are or short") {
  Side side;
  const auto sent = [&side](const std::vector<Sent>& sent) {
    return side.Pull({{Lookup(), ReadDense()}, sent, {}}, LookupArguments());
  };
  CHECK(sent({{2, PartType::kFloat32}, {1, PartType::kInt32}, {0, PartType::kBfloat16}}) == kDone);
  REQUIRE(side.sent.size() == 3);
  CHECK(side.sent[0].values<float>().size() == 3);
  CHECK(side.sent[2].type == PartType::kBfloat16);
  CHECK(side.sent[2].bytes == 2 * 7);
  CHECK(sent({{2, PartType::kFloat32}, {2, PartType::kFloat32}}) == FailureKind::kInvalid);
  CHECK(sent({{2, PartType::kFloat32}, {2, PartType::kBfloat16}}) == FailureKind::kInvalid);
  CHECK(sent({{3, PartType::kFloat32}}) == FailureKind::kInvalid);
  CHECK(sent({{1, PartType::kBfloat16}}) == FailureKind::kInvalid);
  CHECK(sent({{2, PartType::kInt32}}) == FailureKind::kInvalid);
  CHECK(sent({{2, PartType{}}}) == FailureKind::kInvalid);
  CHECK(sent({{2, static_cast<PartType>(15)}}) == FailureKind::kInvalid);
}

TEST_CASE("a part that came short is read as floats, however often it is named") {
  const std::vector<std::uint16_t> gradient{0x3f80, 0xbf00, 0x3e80};
  Side side, expected;
  const Arguments short_one(Vector(gradient, PartType::kBfloat16), Scalar(0.5f));
  const Arguments whole(Vector(std::vector<float>{1, -0.5f, 0.25f}), Scalar(0.5f));
  const CallList list{std::vector<ListedCall>(kMostCalls, ApplyDense({Whose::kPart, 0}, {Whose::kPart, 1})), {}, {}};
  CHECK(side.Push(list, short_one, 0) == kDone);
  CHECK(expected.Push(list, whole, 0) == kDone);
  CHECK(DenseOf(&side) == DenseOf(&expected));
  // Two of no elements, which lie nowhere, are two.
  const ListedCall empty = ApplyDense({Whose::kPart, 0}, {Whose::kPart, 1});
  CHECK(side.Push({{empty}, {}, {}}, Arguments(Array(PartType::kBfloat16, {0, 2}), Array(PartType::kBfloat16, {0})),
                  0) == FailureKind::kInvalid);
}

TEST_CASE("a result that came of a call is an argument of the next") {
  Side side;
  const std::vector<float> before = DenseOf(&side);
  const CallList list{{ReadDense(), {{Function::kMoveDense, {}, {}, {}}, {{Whose::kResult, 0}}}}, {}, {}};
  CHECK(side.Pull(list, Arguments(), 0, true) == kDone);
  std::vector<float> twice = before;
  for (float& each : twice) each *= 2;
  CHECK(DenseOf(&side) == twice);
}

TEST_CASE("the desk wants an asker, and somebody at it") {
  Side side;
  CHECK(side.Send(psplus::kDesk, "words without an end") == FailureKind::kInvalid);
  CHECK(side.Send(psplus::kDesk, std::string("asker\0words", 11)) == FailureKind::kMissing);
}

TEST_CASE("changed messages are served or refused") {
  const char* wanted = std::getenv("AFO_FUZZ_INPUTS");
  const int inputs = wanted == nullptr ? 300 : std::atoi(wanted);
  std::mt19937 random(7);
  for (int i = 0; i < inputs; ++i) {
    std::vector<std::uint8_t> bytes(3 + random() % 40);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    PlayMessages(bytes.data(), bytes.size());
  }
}

}  // namespace afo::testing
