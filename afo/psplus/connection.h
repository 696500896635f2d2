// A client's connection at the server: its hello, its requests, and their answers, within the server's bounds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "afo/psplus/budget.h"
#include "afo/psplus/link.h"
#include "afo/psplus/server.h"
#include "afo/psplus/service.h"
#include "afo/psplus/statistics.h"
#include "afo/psplus/window.h"

namespace afo::psplus {

struct KindCounters {
  Counter requests, failures, bytes_in, bytes_out;
  Histogram queued, served;
};

// What all connections of a server share. Thread-safe. Lives as long as any of them.
struct ServerCore {
  ServerCore(const ServerOptions& options_of, Service* service_of, std::shared_ptr<TlsContext> tls_of)
      : options(options_of), service(service_of), tls(std::move(tls_of)), window(options_of.window),
        bytes(options_of.process_bytes), store_version(options_of.store_version) {}

  // A client that knows of a later version has it from whoever decides: what is about an earlier one is over.
  void Learn(std::uint64_t version) {
    std::uint64_t known = store_version;
    while (version > known) {
      if (store_version.compare_exchange_weak(known, version)) return window.ClearTickets();
    }
  }

  const ServerOptions options;
  Service* const service;
  const std::shared_ptr<TlsContext> tls;
  Window window;
  Budget bytes;
  std::atomic<std::uint64_t> store_version;
  Traffic traffic;
  std::array<KindCounters, kCountedKinds> kinds;
  Counter accepted, refused_connections, refused_handshakes, malformed_frames, late_frames, slow_readers, accept_errors,
      repeated, other_versions;
};

class Connection final : public Link {
 public:
  // `gone` is called on its loop when it has ended.
  Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<Loop> loop, asio::ip::tcp::socket socket,
             std::function<void(Connection*)> gone);

  // Ends it where a deadline is over.
  void Sweep(Clock::time_point now);

 private:
  // A request that is not answered.
  struct Asked {
    std::uint64_t sequence;
    std::size_t kind;
    std::size_t bytes;
    Clock::time_point since;
  };

  void OnOpen() override {}
  Admission OnHeader(const FrameHeader& header) override;
  void OnFrame(Received received) override;
  void OnSent(std::size_t payload) override;
  void OnEnd(End end, const std::string& why) override;

  std::shared_ptr<Connection> Self() { return std::static_pointer_cast<Connection>(shared_from_this()); }
  bool IsRoom(std::size_t bytes);
  void Greet(const FrameHeader& hello);
  void Ask(Received received);
  void Serve(const FrameHeader& header, const std::shared_ptr<Buffer>& payload, const Respond& respond);
  // From any thread.
  void Answered(const Asked& asked, Answer answer);
  void Finish(const Asked& asked, Answer answer);
  void Reply(std::uint64_t sequence, Answer answer);
  void Fail(std::uint64_t sequence, const Failure& failure);
  void CountEnd(End end);

  const std::shared_ptr<ServerCore> core_;
  const std::function<void(Connection*)> gone_;
  const Clock::time_point made_ = Clock::now();
  std::uint64_t id_ = 0;
  std::shared_ptr<KnownClient> client_;
  int hellos_ = 0;
  bool waits_for_room_ = false;
  // Taken of the process's bytes: of the frame that comes in, of requests that are not answered, of answers.
  std::size_t coming_ = 0, asked_ = 0, going_ = 0;
  std::size_t requests_ = 0;
};

}  // namespace afo::psplus
