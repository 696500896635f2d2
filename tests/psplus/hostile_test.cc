// Bytes and peers that mean no good: each loses its connection, and nobody else anything.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "support.h"

namespace afo::psplus::testing {
namespace {

// More where it is asked for.
int Times(int usual) {
  const char* soak = std::getenv("AFO_PSPLUS_SOAK");
  return soak == nullptr ? usual : usual * std::atoi(soak);
}

std::string BytesOf(const FrameHeader& header) {
  const HeaderBytes bytes = Encode(header);
  return {bytes.data(), bytes.size()};
}

TEST_CASE("malformed frames close their connection, and others go on") {
  std::atomic<int> served{0};
  FunctionService service([&](const Request& request, const Respond& respond) {
    ++served;
    Echo(request, respond);
  });
  const auto server = Started(ServerOptionsOf(false), &service);
  const auto client = Made(ClientOptionsOf(false), {AddressOf(*server)});
  std::mt19937_64 random(7);
  const int times = Times(1000);
  std::uint64_t greeted = 0;
  for (int i = 0; i < times; ++i) {
    RawConnection hostile(server->port());
    if (i % 2 == 0) {
      hostile.SendHello(1000 + static_cast<std::uint64_t>(i % 50));
      REQUIRE(hostile.Receive().there);
      ++greeted;
    }
    std::string bytes = BytesOf(RequestHeader(7, 1, 10));
    // A byte that differs, so the sum is wrong, or the client is another's.
    const std::size_t at = random() % (kHeaderBytes + 1);
    if (at < kHeaderBytes) bytes[at] = static_cast<char>(bytes[at] + 1 + static_cast<char>(random() % 255));
    hostile.Send(bytes);
    CHECK(hostile.IsClosed());
    if (i % 100 == 0) CHECK(AskAndWait(client.get(), QuestionOf("x")).ok());
  }
  CHECK(Eventually([&] { return server->statistics().open_connections == 1; }));
  const ServerStatistics statistics = server->statistics();
  CHECK(statistics.malformed_frames == greeted);
  CHECK(statistics.refused_handshakes == static_cast<std::uint64_t>(times) - greeted);
  CHECK(statistics.bytes_in_flight == 0);
  CHECK(served == (times + 99) / 100);
}

TEST_CASE("frames that are whole but out of place close their connection") {
  FunctionService service(Echo);
  ServerOptions options = ServerOptionsOf(false);
  options.frame_bytes = 1000;
  const auto server = Started(options, &service);
  FrameHeader hello, reply = RequestHeader(5, 1, 0), welcome, with_payload, none;
  hello.client = welcome.client = with_payload.client = 5;
  reply.kind = FrameKind::kReply;
  welcome.kind = FrameKind::kWelcome;
  with_payload.payload = 1;
  // Instead of a hello, and behind one.
  for (const FrameHeader& first : {RequestHeader(5, 1, 0), reply, welcome, with_payload, none}) {
    RawConnection connection(server->port());
    connection.SendFrame(first);
    CHECK(connection.IsClosed());
  }
  for (const FrameHeader& second : {hello, reply, welcome, RequestHeader(6, 1, 0), RequestHeader(5, 0, 0),
                                    RequestHeader(5, 1, 1001), RequestHeader(5, 1, UINT64_MAX)}) {
    RawConnection connection(server->port());
    connection.SendHello(5);
    CHECK(connection.Receive().there);
    connection.SendFrame(second);
    CHECK(connection.IsClosed());
  }
  CHECK(server->statistics().refused_handshakes == 5);
  CHECK(server->statistics().malformed_frames == 7);
}

TEST_CASE("whoever does not hold the secret is refused") {
  FunctionService service(Echo);
  const auto server = Started(ServerOptionsOf(true), &service);
  const auto failure_of = [&](const ClientOptions& options) {
    const auto client = Made(options, {AddressOf(*server)});
    Question question = QuestionOf("x");
    question.deadline = milliseconds(150);
    return AskAndWait(client.get(), std::move(question)).failure;
  };
  const Authority other;
  ClientOptions options = ClientOptionsOf(true);
  options.tls = other.End();
  Failure failure = failure_of(options);
  CHECK(failure.code == Code::kUnreachable);
  CHECK(failure.words.find("certificate is refused") != std::string::npos);
  options.tls->authority = Secret().authority;
  failure = failure_of(options);
  CHECK(failure.code == Code::kUnreachable);
  CHECK(failure_of(ClientOptionsOf(false)).code == Code::kUnreachable);
  CHECK(Eventually([&] { return server->statistics().refused_handshakes >= 3; }));
  CHECK(server->statistics().kinds[0].requests == 0);
  const auto client = Made(ClientOptionsOf(true), {AddressOf(*server)});
  CHECK(AskAndWait(client.get(), QuestionOf("x")).ok());
}

TEST_CASE("random bytes at an encrypted port are refused") {
  FunctionService service(Echo);
  const auto server = Started(ServerOptionsOf(true), &service);
  std::mt19937_64 random(3);
  const int times = Times(100);
  for (int i = 0; i < times; ++i) {
    RawConnection hostile(server->port());
    std::string bytes(1 + random() % 2000, '\0');
    for (char& each : bytes) each = static_cast<char>(random());
    // The start of a TLS record, for some.
    if (i % 3 == 0) bytes.replace(0, std::min<std::size_t>(bytes.size(), 3), std::string("\x16\x03\x01", 3), 0, bytes.size() < 3 ? 0 : 3);
    hostile.Send(bytes);
    std::error_code ignored;
    hostile.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    char got[64];
    while (hostile.socket().read_some(asio::buffer(got), ignored) > 0) continue;
  }
  CHECK(Eventually([&] { return server->statistics().open_connections == 0; }));
  CHECK(server->statistics().refused_handshakes == static_cast<std::uint64_t>(times));
}

TEST_CASE("a client at something that is no server says so") {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::make_address("127.0.0.1"), 0});
  std::atomic<bool> stops{false};
  std::thread thread([&] {
    while (!stops) {
      asio::ip::tcp::socket socket = acceptor.accept();
      std::error_code ignored;
      asio::write(socket, asio::buffer(std::string(200, 'x')), ignored);
      socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
      char got[4096];
      while (socket.read_some(asio::buffer(got), ignored) > 0) continue;
    }
  });
  const std::string address = "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  for (const bool tls : {true, false}) {
    const auto client = Made(ClientOptionsOf(tls), {address});
    Question question = QuestionOf("x");
    question.deadline = milliseconds(150);
    const Failure failure = AskAndWait(client.get(), std::move(question)).failure;
    CHECK(failure.code == Code::kUnreachable);
    const std::string expected = tls ? "wrong version number" : "a frame is none of afo";
    CHECK_MESSAGE(failure.words.find(expected) != std::string::npos, failure.words);
  }
  stops = true;
  { RawConnection last(acceptor.local_endpoint().port()); }
  thread.join();
}

}  // namespace
}  // namespace afo::psplus::testing
