// What a server takes no more than, and how long it waits.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "afo/psplus/server.h"
#include "support.h"

namespace afo::psplus::testing {
namespace {

TEST_CASE("only so much is read of a connection while its answers are not taken") {
  std::atomic<int> served{0};
  const auto reply = Buffer::Of(1 << 20);
  std::memset(reply->data(), 1, reply->size());
  FunctionService service([&](const Request&, const Respond& respond) {
    ++served;
    respond(Answer::Of(Payload::Of(reply)));
  });
  ServerOptions options = ServerOptionsOf(false);
  options.connection_bytes = 2 << 20;
  const auto server = Started(options, &service);
  RawConnection connection(server->port());
  connection.SendHello(5);
  REQUIRE(connection.Receive().there);
  for (std::uint64_t i = 1; i <= 100; ++i) connection.SendFrame(RequestHeader(5, i, 0));
  // Others are answered meanwhile.
  const auto client = Made(ClientOptionsOf(false), {AddressOf(*server)});
  for (int i = 0; i < 10; ++i) CHECK(AskAndWait(client.get(), QuestionOf("x")).ok());
  // What the sockets' buffers hold, and the bound.
  CHECK(served < 60);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    const RawConnection::Frame frame = connection.Receive();
    REQUIRE(frame.there);
    CHECK(frame.header.sequence == i);
  }
  CHECK(served == 110);
}

TEST_CASE("only so much is read of all connections") {
  std::mutex mutex;
  std::vector<Respond> open;
  const auto waiting = [&] {
    std::lock_guard lock(mutex);
    return open.size();
  };
  FunctionService service([&](const Request&, const Respond& respond) {
    std::lock_guard lock(mutex);
    open.push_back(respond);
  });
  ServerOptions options = ServerOptionsOf(true);
  options.process_bytes = 3'000'000;
  const auto server = Started(options, &service);
  std::vector<std::unique_ptr<Client>> clients;
  Answers answers;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(Made(ClientOptionsOf(true), {AddressOf(*server)}));
    clients.back()->Ask(0, QuestionOf(std::string(1'000'000, 'x'), true), answers.Next());
  }
  REQUIRE(Eventually([&] { return waiting() == 3; }));
  CHECK(server->statistics().bytes_in_flight < 4'100'000);
  std::size_t answered = 0;
  while (answered < 8) {
    REQUIRE(Eventually([&] { return waiting() > 0; }));
    CHECK(waiting() <= 3);
    std::vector<Respond> some;
    {
      std::lock_guard lock(mutex);
      some.swap(open);
    }
    for (const Respond& respond : some) respond(Answer::Of(PayloadOf("done")));
    answered += some.size();
  }
  for (const Outcome& outcome : answers.Wait()) CHECK(outcome.ok());
  CHECK(Eventually([&] { return server->statistics().bytes_in_flight == 0; }));
}

TEST_CASE("a reader that is too slow is closed while others go on") {
  const auto reply = Buffer::Of(16 << 20);
  std::memset(reply->data(), 1, reply->size());
  FunctionService service([&](const Request& request, const Respond& respond) {
    request.kind == 1 ? respond(Answer::Of(Payload::Of(reply))) : Echo(request, respond);
  });
  ServerOptions options = ServerOptionsOf(false);
  options.reader_deadline = milliseconds(300);
  const auto server = Started(options, &service);
  RawConnection slow(server->port());
  slow.SendHello(5);
  REQUIRE(slow.Receive().there);
  FrameHeader request = RequestHeader(5, 1, 0);
  request.request_kind = 1;
  slow.SendFrame(request);
  const auto client = Made(ClientOptionsOf(false), {AddressOf(*server)});
  REQUIRE(Eventually([&] {
    CHECK(AskAndWait(client.get(), QuestionOf("x")).ok());
    return server->statistics().slow_readers == 1;
  }));
  CHECK(server->statistics().open_connections == 1);
  CHECK(slow.IsClosed());
}

TEST_CASE("connections that say no hello, or only half of a frame, are closed") {
  FunctionService service(Echo);
  ServerOptions options = ServerOptionsOf(false);
  options.handshake_deadline = milliseconds(100);
  options.frame_deadline = milliseconds(100);
  const auto server = Started(options, &service);
  RawConnection silent(server->port()), half(server->port()), idle(server->port());
  half.SendHello(5);
  idle.SendHello(6);
  CHECK(half.Receive().there);
  CHECK(idle.Receive().there);
  half.SendFrame(RequestHeader(5, 1, 1000), "only this");
  CHECK(half.IsClosed());
  CHECK(silent.IsClosed());
  CHECK(server->statistics().late_frames == 1);
  CHECK(server->statistics().refused_handshakes == 1);
  // One that rests stays.
  idle.SendFrame(RequestHeader(6, 1, 2), "go");
  CHECK(idle.Receive().payload == "go");
}

TEST_CASE("connections above the limit are closed, and those below go on") {
  FunctionService service(Echo);
  ServerOptions options = ServerOptionsOf(false);
  options.connections = 3;
  const auto server = Started(options, &service);
  std::vector<std::unique_ptr<RawConnection>> all;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    all.push_back(std::make_unique<RawConnection>(server->port()));
    all.back()->SendHello(i);
    CHECK(all.back()->Receive().there);
  }
  RawConnection fourth(server->port());
  CHECK(fourth.IsClosed());
  CHECK(server->statistics().refused_connections == 1);
  all.pop_back();
  REQUIRE(Eventually([&] { return server->statistics().open_connections == 2; }));
  RawConnection fifth(server->port());
  fifth.SendHello(5);
  CHECK(fifth.Receive().there);
}

TEST_CASE("without a file for a connection the server pauses, and goes on when there is one") {
  FunctionService service(Echo);
  ServerOptions options = ServerOptionsOf(false);
  options.accept_pause = milliseconds(20);
  const auto server = Started(options, &service);
  RawConnection first(server->port());
  first.SendHello(1);
  CHECK(first.Receive().there);
  asio::io_context context;
  asio::ip::tcp::socket waiting(context);
  waiting.open(asio::ip::tcp::v4());
  rlimit before{}, none{};
  getrlimit(RLIMIT_NOFILE, &before);
  // Whatever is open stays; nothing further can be.
  const int next = dup(0);
  close(next);
  none = {static_cast<rlim_t>(next), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  waiting.connect({asio::ip::make_address("127.0.0.1"), server->port()});
  const bool paused = Eventually([&] { return server->statistics().accept_errors >= 2; });
  first.SendFrame(RequestHeader(1, 1, 2), "go");
  const std::string reply = first.Receive().payload;
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(paused);
  CHECK(reply == "go");
  CHECK(Eventually([&] { return server->statistics().accepted == 2; }));
  CHECK(server->statistics().accept_errors < 100);
}

}  // namespace
}  // namespace afo::psplus::testing
