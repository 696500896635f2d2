// What several tests need: a service of a function, questions that are waited for, a raw connection.
#pragma once

#include <doctest/doctest.h>

#include <asio.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "afo/psplus/client.h"
#include "afo/psplus/frame.h"
#include "afo/psplus/server.h"
#include "secret.h"

namespace afo::psplus::testing {

using std::chrono::milliseconds;

class FunctionService : public Service {
 public:
  explicit FunctionService(std::function<void(Request, Respond)> serve) : serve_(std::move(serve)) {}
  void Serve(Request request, Respond respond) override { serve_(std::move(request), std::move(respond)); }

 private:
  const std::function<void(Request, Respond)> serve_;
};

inline Payload PayloadOf(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {{{owner->data(), owner->size()}}, owner};
}

inline std::string TextOf(const Buffer& buffer) { return {buffer.data(), buffer.size()}; }

inline void Echo(const Request& request, const Respond& respond) { respond(Answer::Of(Payload::Of(request.payload))); }

// Waits for a condition that others make true; false where it did not within a minute.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

// Of answers that are still to come.
class Answers {
 public:
  Done Next() {
    std::lock_guard lock(mutex_);
    const std::size_t place = outcomes_.size();
    outcomes_.emplace_back();
    ++open_;
    return [this, place](Outcome outcome) {
      std::lock_guard done(mutex_);
      outcomes_[place] = std::move(outcome);
      --open_;
      changed_.notify_all();
    };
  }
  // All, in the order of Next.
  std::vector<Outcome> Wait() {
    std::unique_lock lock(mutex_);
    const auto end = std::chrono::system_clock::now() + std::chrono::minutes(2);
    REQUIRE(changed_.wait_until(lock, end, [this] { return open_ == 0; }));
    return outcomes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Outcome> outcomes_;
  std::size_t open_ = 0;
};

inline Question QuestionOf(std::string text, bool once = false) {
  Question question;
  question.once = once;
  question.payload = PayloadOf(std::move(text));
  return question;
}

inline Outcome AskAndWait(Client* client, Question question, std::size_t server = 0) {
  Answers answers;
  client->Ask(server, std::move(question), answers.Next());
  return answers.Wait().front();
}

inline std::string AddressOf(const Server& server) { return "127.0.0.1:" + std::to_string(server.port()); }

inline ServerOptions ServerOptionsOf(bool tls) {
  ServerOptions options;
  options.host = "127.0.0.1";
  if (tls) options.tls = Secret();
  options.plain = !tls;
  return options;
}

inline std::unique_ptr<Server> Started(const ServerOptions& options, Service* service) {
  Server::Started started = Server::Start(options, service);
  REQUIRE(started.wrong == "");
  return std::move(started.server);
}

inline ClientOptions ClientOptionsOf(bool tls) {
  ClientOptions options;
  if (tls) options.tls = Secret();
  options.plain = !tls;
  options.first_pause = milliseconds(2);
  options.longest_pause = milliseconds(50);
  return options;
}

inline std::unique_ptr<Client> Made(const ClientOptions& options, const std::vector<std::string>& addresses) {
  Client::Made made = Client::Of(options);
  REQUIRE(made.wrong == "");
  REQUIRE(made.client->SetServers(0, addresses) == "");
  return std::move(made.client);
}

// A plain connection whose bytes the test chooses.
class RawConnection {
 public:
  explicit RawConnection(std::uint16_t port) : socket_(context_) {
    socket_.connect({asio::ip::make_address("127.0.0.1"), port});
  }

  void Send(const std::string& bytes) {
    std::error_code ignored;
    asio::write(socket_, asio::buffer(bytes), ignored);
  }
  void SendFrame(const FrameHeader& header, const std::string& payload = "") {
    const HeaderBytes bytes = Encode(header);
    Send(std::string(bytes.data(), bytes.size()) + payload);
  }
  void SendHello(std::uint64_t client, std::uint32_t flags = 0) {
    FrameHeader hello;
    hello.client = client;
    hello.flags = flags;
    SendFrame(hello);
  }
  struct Frame {
    bool there = false;
    FrameHeader header;
    std::string payload;
  };
  // The next frame, or none where the peer closed.
  Frame Receive() {
    HeaderBytes bytes;
    std::error_code error;
    asio::read(socket_, asio::buffer(bytes), error);
    if (error) return {};
    const DecodedHeader decoded = DecodeHeader(bytes.data(), UINT64_MAX);
    REQUIRE(decoded.wrong == "");
    std::string payload(decoded.header.payload, '\0');
    asio::read(socket_, asio::buffer(payload), error);
    if (error) return {};
    return {true, decoded.header, payload};
  }
  bool IsClosed() { return !Receive().there; }
  asio::ip::tcp::socket& socket() { return socket_; }

 private:
  asio::io_context context_;
  asio::ip::tcp::socket socket_;
};

inline FrameHeader RequestHeader(std::uint64_t client, std::uint64_t sequence, std::size_t bytes, bool once = false) {
  FrameHeader header;
  header.kind = FrameKind::kRequest;
  header.flags = once ? kOnce : 0;
  header.client = client;
  header.sequence = sequence;
  header.payload = bytes;
  return header;
}

}  // namespace afo::psplus::testing
