// A worker's end: asks the servers of a job, over one connection each, which is made when it is first needed.
//
// A question is sent again, under the same sequence, when its connection goes, until it is answered or its deadline is
// over. Several are under way at a time, and answers come in any order.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afo/psplus/buffer.h"
#include "afo/psplus/frame.h"
#include "afo/psplus/tls.h"

namespace afo::psplus {

struct ClientOptions {
  // Absent only together with `plain`, which is for measurements.
  std::optional<TlsTexts> tls;
  bool plain = false;
  // Servers are spread over them.
  int threads = 1;
  // Of a question, and of a reply.
  std::size_t frame_bytes = 64 << 20;
  // For each server: questions that are sent and not answered (others wait), and those that there are. What is beyond
  // ends with kBusy. At most half of WindowOptions::requests are sent.
  std::size_t sent = 32;
  std::size_t questions = 1024;
  std::size_t bytes = 512 << 20;
  std::chrono::milliseconds connect_deadline{10'000};
  // Before a further attempt; doubled with each up to the longest, and drawn between half and all of it.
  std::chrono::milliseconds first_pause{20};
  std::chrono::milliseconds longest_pause{1'000};
  // How long a connection may take no bytes of what is being sent.
  std::chrono::milliseconds stuck_deadline{30'000};

  bool operator==(const ClientOptions&) const = default;
};

struct Question {
  std::uint32_t kind = 0;
  // It changes something.
  bool once = false;
  // Of the store that the question is about: with another one than SetServers said it ends with kOtherVersion.
  std::uint64_t store_version = 0;
  Payload payload;
  std::chrono::milliseconds deadline{60'000};
};

struct Outcome {
  std::uint64_t sequence = 0;
  // Of a reply; else `failure` says why there is none.
  std::shared_ptr<const Buffer> reply;
  Failure failure;

  bool ok() const { return reply != nullptr; }
};
// Called once, on a thread of the client, which it must not hold up, or by Ask itself where that refuses.
using Done = std::function<void(Outcome)>;

// Thread-safe.
class Client {
 public:
  struct Made {
    std::unique_ptr<Client> client;
    // What is wrong with the options; empty: nothing.
    std::string wrong;
  };
  static Made Of(const ClientOptions& options);
  // Ends all questions with kClosed before it returns. Not on a thread of the client.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // "host:port" of each server, "[host]:port" with colons in the host; empty, or what is wrong with them. Questions of
  // another version end with kOtherVersion.
  [[nodiscard]] std::string SetServers(std::uint64_t store_version, const std::vector<std::string>& addresses);
  // Its sequence, which rises with each question to the server; 0 where it is refused. A service that keeps a ticket
  // knows it by this number.
  std::uint64_t Ask(std::size_t server, Question question, Done done);
  // How often a connection was lost, or not made: while that grows a server is gone, or cannot be reached.
  std::uint64_t losses() const;
  // Random; what servers know this client by.
  std::uint64_t id() const;

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace afo::psplus
