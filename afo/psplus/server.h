// The server of one process of a job: connections of clients that hold the job's secret, on a few threads.
//
// Each thread is a loop of its own, and a connection stays with its loop: a request is read, served and answered there
// without a switch of threads. One loop also accepts, and gives a connection to the loop that has the fewest: ports that
// are shared (SO_REUSEPORT) would spread a few connections by chance, and let another process of the same user share.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "afo/psplus/service.h"
#include "afo/psplus/statistics.h"
#include "afo/psplus/tls.h"

namespace afo::psplus {

// How many requests a server remembers, so that none with `once` is carried out twice, and how long.
struct WindowOptions {
  // Of a client: answers to its latest requests with `once`, and tickets.
  std::size_t requests = 64;
  // Of their answers, of a client and of all.
  std::size_t client_bytes = 4 << 20;
  std::size_t bytes = 256 << 20;
  std::size_t clients = 16384;
  // After a client's last connection went.
  std::chrono::milliseconds forget_after{60'000};

  bool operator==(const WindowOptions&) const = default;
};

struct ServerOptions {
  // An address of this machine; port 0: any that is free.
  std::string host = "0.0.0.0";
  std::uint16_t port = 0;
  int loops = 2;
  // Absent only together with `plain`, which is for measurements.
  std::optional<TlsTexts> tls;
  bool plain = false;
  std::uint64_t store_version = 0;

  std::size_t frame_bytes = 64 << 20;
  // Payloads that are received, served or not yet sent. Where there are more nothing further is read; one frame may go
  // beyond.
  std::size_t connection_bytes = 128 << 20;
  std::size_t process_bytes = std::size_t{1} << 30;
  std::size_t connection_requests = 256;
  // Lowered to what the process may open.
  std::size_t connections = 8192;
  std::chrono::milliseconds handshake_deadline{10'000};
  // For the rest of a frame once its first byte has come, and for the peer to take a frame.
  std::chrono::milliseconds frame_deadline{30'000};
  std::chrono::milliseconds reader_deadline{30'000};
  // After an error of accepting, such as too many open files.
  std::chrono::milliseconds accept_pause{100};
  WindowOptions window;

  bool operator==(const ServerOptions&) const = default;
};

// Thread-safe.
class Server {
 public:
  struct Started {
    std::unique_ptr<Server> server;
    // What is wrong with the options, or what the system refused; empty: nothing.
    std::string wrong;
  };
  // `service` outlives the server.
  static Started Start(const ServerOptions& options, Service* service);
  // Stops it. Not on a thread of a loop.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Closes all connections and ends the threads. Answers that come later are dropped.
  void Stop();
  std::uint16_t port() const;
  // Requests of another version are refused from now on, and all tickets go. A client that asks about a later version
  // has the same effect.
  void SetStoreVersion(std::uint64_t version);
  std::uint64_t store_version() const;
  ServerStatistics statistics() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace afo::psplus
