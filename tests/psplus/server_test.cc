#include "afo/psplus/server.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace afo::psplus::testing {
namespace {

std::string Big(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 2654435761u + seed) >> 13);
  return text;
}

TEST_CASE("questions of any size are answered, encrypted and not") {
  FunctionService service(Echo);
  for (const bool tls : {true, false}) {
    const auto server = Started(ServerOptionsOf(tls), &service);
    const auto client = Made(ClientOptionsOf(tls), {AddressOf(*server)});
    for (const std::size_t size : {0, 1, 63, 16320, 16384, 16385, 300'000, 32 << 20}) {
      const std::string text = Big(size, 1);
      const Outcome outcome = AskAndWait(client.get(), QuestionOf(text));
      REQUIRE_MESSAGE(outcome.ok(), outcome.failure.words);
      CHECK(reinterpret_cast<std::uintptr_t>(outcome.reply->data()) % 64 == 0);
      CHECK(TextOf(*outcome.reply) == text);
    }
  }
}

TEST_CASE("pieces are sent as if they were joined") {
  FunctionService service([](const Request& request, const Respond& respond) {
    Payload reply;
    for (std::size_t i = 0; i < request.payload->size(); i += 1000) {
      reply.pieces.push_back({request.payload->data() + i, std::min<std::size_t>(1000, request.payload->size() - i)});
      reply.pieces.push_back({nullptr, 0});
    }
    reply.owner = request.payload;
    respond(Answer::Of(std::move(reply)));
  });
  for (const bool tls : {true, false}) {
    const auto server = Started(ServerOptionsOf(tls), &service);
    const auto client = Made(ClientOptionsOf(tls), {AddressOf(*server)});
    const auto text = std::make_shared<const std::string>(Big(500'000, 2));
    Question question;
    question.payload.owner = text;
    for (std::size_t i = 0; i < 100; ++i) question.payload.pieces.push_back({text->data() + i * 5000, 5000});
    const Outcome outcome = AskAndWait(client.get(), std::move(question));
    REQUIRE(outcome.ok());
    CHECK(TextOf(*outcome.reply) == *text);
  }
}

TEST_CASE("many clients ask several servers at once, and each gets its own answers") {
  FunctionService service(Echo);
  const auto first = Started(ServerOptionsOf(true), &service), second = Started(ServerOptionsOf(true), &service);
  const std::vector<std::string> addresses{AddressOf(*first), AddressOf(*second)};
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (unsigned i = 0; i < 12; ++i) {
    threads.emplace_back([&, i] {
      ClientOptions options = ClientOptionsOf(true);
      options.threads = 1 + static_cast<int>(i % 2);
      const auto client = Made(options, addresses);
      Answers answers;
      std::vector<std::string> texts;
      for (unsigned j = 0; j < 40; ++j) {
        texts.push_back(Big((j * 977 + i) % 40'000, i * 100 + j));
        client->Ask(j % 2, QuestionOf(texts.back(), j % 3 == 0), answers.Next());
      }
      const std::vector<Outcome> outcomes = answers.Wait();
      for (std::size_t j = 0; j < texts.size(); ++j) {
        if (outcomes[j].ok() && TextOf(*outcomes[j].reply) == texts[j]) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 12 * 40);
  CHECK(first->statistics().kinds[0].requests == 12 * 20);
  CHECK(Eventually([&] { return first->statistics().open_connections == 0; }));
  CHECK(first->statistics().bytes_in_flight == 0);
  CHECK(first->statistics().known_clients == 12);
}

TEST_CASE("a service answers later and from another thread, in any order, while others are answered") {
  std::mutex mutex;
  std::vector<Respond> open;
  FunctionService service([&](const Request& request, const Respond& respond) {
    if (request.kind == 0) return Echo(request, respond);
    std::lock_guard lock(mutex);
    open.push_back(respond);
  });
  ServerOptions options = ServerOptionsOf(true);
  options.loops = 1;
  const auto server = Started(options, &service);
  const auto client = Made(ClientOptionsOf(true), {AddressOf(*server)});
  Answers late;
  for (int i = 0; i < 3; ++i) {
    Question question = QuestionOf("save", true);
    question.kind = 5;
    client->Ask(0, std::move(question), late.Next());
  }
  CHECK(TextOf(*AskAndWait(client.get(), QuestionOf("quick")).reply) == "quick");
  REQUIRE(Eventually([&] {
    std::lock_guard lock(mutex);
    return open.size() == 3;
  }));
  std::thread thread([&] {
    std::lock_guard lock(mutex);
    for (int i = 2; i >= 0; --i) open[static_cast<std::size_t>(i)](Answer::Of(PayloadOf("saved " + std::to_string(i))));
    open[0](Answer::Of(PayloadOf("twice")));
    open.clear();
  });
  const auto outcomes = late.Wait();
  thread.join();
  for (std::size_t i = 0; i < 3; ++i) CHECK(TextOf(*outcomes[i].reply) == "saved " + std::to_string(i));
  const ServerStatistics statistics = server->statistics();
  CHECK(statistics.kinds[5].requests == 3);
  CHECK(statistics.kinds[0].bytes_in == 5);
}

TEST_CASE("a service that fails, throws or says nothing is answered for") {
  FunctionService service([](const Request& request, const Respond& respond) {
    if (request.kind == 1) throw std::runtime_error("no such table");
    if (request.kind == 2) respond(Answer::Failed(static_cast<Code>(kServiceCodes + 7), "rows are missing"));
  });
  const auto server = Started(ServerOptionsOf(false), &service);
  const auto client = Made(ClientOptionsOf(false), {AddressOf(*server)});
  const auto failure_of = [&](std::uint32_t kind) {
    Question question = QuestionOf("x", true);
    question.kind = kind;
    return AskAndWait(client.get(), std::move(question)).failure;
  };
  CHECK(failure_of(0).code == Code::kInternal);
  CHECK(failure_of(1).words == "server " + AddressOf(*server) + ": no such table");
  CHECK(failure_of(2).code == static_cast<Code>(kServiceCodes + 7));
  CHECK(server->statistics().kinds[2].failures == 1);
}

TEST_CASE("an answer that comes when the server is gone is dropped") {
  std::promise<Respond> given;
  FunctionService service([&](const Request&, const Respond& respond) { given.set_value(respond); });
  auto server = Started(ServerOptionsOf(true), &service);
  auto client = Made(ClientOptionsOf(true), {AddressOf(*server)});
  Answers answers;
  client->Ask(0, QuestionOf("save"), answers.Next());
  const Respond respond = given.get_future().get();
  server.reset();
  respond(Answer::Of(PayloadOf("late")));
  client.reset();
  CHECK(answers.Wait().front().failure.code == Code::kClosed);
}

TEST_CASE("requests about another version of the store are refused, and tickets go with it") {
  std::shared_ptr<Tickets> tickets;
  FunctionService service([&](const Request& request, const Respond& respond) {
    tickets = request.tickets;
    tickets->Keep(request.sequence, std::make_shared<int>(1));
    Echo(request, respond);
  });
  const auto server = Started(ServerOptionsOf(true), &service);
  const auto client = Made(ClientOptionsOf(true), {AddressOf(*server)});
  const Outcome first = AskAndWait(client.get(), QuestionOf("x", true));
  CHECK(first.ok());
  CHECK(tickets->Find(first.sequence) != nullptr);
  server->SetStoreVersion(9);
  CHECK(tickets->Find(first.sequence) == nullptr);
  const Failure failure = AskAndWait(client.get(), QuestionOf("x", true)).failure;
  CHECK(failure.code == Code::kOtherVersion);
  CHECK(failure.store_version == 9);
  CHECK(client->SetServers(9, {AddressOf(*server)}) == "");
  CHECK(AskAndWait(client.get(), QuestionOf("x", true)).failure.code == Code::kOtherVersion);
  Question question = QuestionOf("x", true);
  question.store_version = 9;
  const Outcome second = AskAndWait(client.get(), std::move(question));
  CHECK(second.ok());
  CHECK(second.sequence > first.sequence);
  CHECK(server->statistics().other_versions == 1);
}

TEST_CASE("questions of an earlier version end at once") {
  FunctionService service([open = std::make_shared<std::vector<Respond>>()](const Request&, const Respond& respond) {
    open->push_back(respond);
  });
  const auto server = Started(ServerOptionsOf(false), &service);
  const auto client = Made(ClientOptionsOf(false), {AddressOf(*server), "127.0.0.1:1"});
  Answers answers;
  client->Ask(0, QuestionOf("x"), answers.Next());
  client->Ask(1, QuestionOf("x"), answers.Next());
  CHECK(client->SetServers(3, {}) == "");
  for (const Outcome& outcome : answers.Wait()) {
    CHECK(outcome.failure.code == Code::kOtherVersion);
    CHECK(outcome.failure.store_version == 3);
  }
  Question question = QuestionOf("x");
  question.store_version = 3;
  CHECK(AskAndWait(client.get(), question).failure.words == "there is no server 0, but 0 from 0 on");
}

TEST_CASE("a server that is not there, or says nothing, costs a question its deadline") {
  std::vector<Respond> open;
  FunctionService service([&](const Request&, const Respond& respond) { open.push_back(respond); });
  const auto server = Started(ServerOptionsOf(true), &service);
  asio::io_context context;
  // It listens, and nobody accepts.
  asio::ip::tcp::acceptor silent(context, {asio::ip::make_address("127.0.0.1"), 0});
  const std::string silent_address = "127.0.0.1:" + std::to_string(silent.local_endpoint().port());
  ClientOptions options = ClientOptionsOf(true);
  options.connect_deadline = milliseconds(50);
  const auto client = Made(options, {AddressOf(*server), "127.0.0.1:1", silent_address, "no.such.host.invalid:80"});
  Answers answers;
  for (std::size_t i = 0; i < 4; ++i) {
    Question question = QuestionOf("x");
    question.deadline = milliseconds(200);
    client->Ask(i, std::move(question), answers.Next());
  }
  const auto outcomes = answers.Wait();
  CHECK(outcomes[0].failure.code == Code::kDeadline);
  CHECK(outcomes[0].failure.words == "server " + AddressOf(*server) + " did not answer within 200 ms");
  CHECK(outcomes[1].failure.code == Code::kUnreachable);
  CHECK(outcomes[1].failure.words == "server 127.0.0.1:1 was not reached within 200 ms: Connection refused");
  CHECK(outcomes[2].failure.code == Code::kUnreachable);
  CHECK(outcomes[2].failure.words.find("the server did not answer in time") != std::string::npos);
  CHECK(outcomes[3].failure.code == Code::kUnreachable);
}

TEST_CASE("a client's questions are bounded") {
  FunctionService service(Echo);
  ClientOptions options = ClientOptionsOf(false);
  options.questions = 2;
  options.bytes = 1000;
  options.frame_bytes = 2000;
  const auto client = Made(options, {"127.0.0.1:1"});
  Answers answers;
  client->Ask(0, QuestionOf(std::string(2001, 'x')), answers.Next());
  client->Ask(0, QuestionOf(std::string(800, 'x')), answers.Next());
  client->Ask(0, QuestionOf(std::string(300, 'x')), answers.Next());
  client->Ask(0, QuestionOf("x"), answers.Next());
  client->Ask(0, QuestionOf("x"), answers.Next());
  CHECK(client->SetServers(1, {}) == "");
  const auto outcomes = answers.Wait();
  CHECK(outcomes[0].failure.code == Code::kTooLarge);
  CHECK(outcomes[1].failure.code == Code::kOtherVersion);
  CHECK(outcomes[2].failure.code == Code::kBusy);
  CHECK(outcomes[3].failure.code == Code::kOtherVersion);
  CHECK(outcomes[4].failure.code == Code::kBusy);
}

TEST_CASE("connections are spread over the loops") {
  std::mutex mutex;
  std::map<std::thread::id, int> served;
  FunctionService service([&](const Request& request, const Respond& respond) {
    {
      std::lock_guard lock(mutex);
      ++served[std::this_thread::get_id()];
    }
    Echo(request, respond);
  });
  ServerOptions options = ServerOptionsOf(false);
  options.loops = 3;
  const auto server = Started(options, &service);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(Made(ClientOptionsOf(false), {AddressOf(*server)}));
    CHECK(AskAndWait(clients.back().get(), QuestionOf("x")).ok());
  }
  CHECK(served.size() == 3);
  for (const auto& [thread, count] : served) CHECK(count == 2);
}

TEST_CASE("options that cannot be are refused with what is wrong") {
  FunctionService service(Echo);
  const auto wrong_of = [&](const std::function<void(ServerOptions*)>& change) {
    ServerOptions options = ServerOptionsOf(false);
    change(&options);
    return Server::Start(options, &service).wrong;
  };
  const auto server = Started(ServerOptionsOf(false), &service);
  CHECK(wrong_of([](ServerOptions* options) { options->plain = false; }) ==
        "neither a certificate is given nor plain connections are asked for");
  CHECK(wrong_of([](ServerOptions* options) { options->loops = 0; }) ==
        "there are to be 0 loops where 1 to 256 are allowed");
  CHECK(wrong_of([](ServerOptions* options) { options->frame_bytes = 0; }) == "a bound is 0");
  CHECK(wrong_of([](ServerOptions* options) { options->host = "here"; }) == "host here is no address");
  const std::string port = std::to_string(server->port());
  CHECK(wrong_of([&](ServerOptions* options) { options->port = server->port(); }) ==
        "port " + port + " of 127.0.0.1: Address already in use");
  const auto client = Made(ClientOptionsOf(false), {});
  for (const char* address : {"host", ":80", "host:", "host:0", "host:65536", "a:b:80", "host:8x"}) {
    CHECK(client->SetServers(1, {address}) == std::string("address ") + address + " is not as host:port");
  }
  CHECK(client->SetServers(1, {"[::1]:80", "host:65535"}) == "");
}

}  // namespace
}  // namespace afo::psplus::testing
