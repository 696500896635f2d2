// Exactly once: what a server remembers of its clients, so that a request that is sent again is not carried out again.
//
// Of each client the latest requests with `once` are remembered with their answers. A client numbers its requests
// upwards and says below which number all are answered, so one that is neither remembered nor newer than all that were
// forgotten is not known to be new, and is refused. The memory lasts some time beyond the client's last connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "afo/psplus/budget.h"
#include "afo/psplus/server.h"
#include "afo/psplus/service.h"
#include "afo/psplus/statistics.h"

namespace afo::psplus {

// What is remembered of one client. Thread-safe.
class KnownClient : public std::enable_shared_from_this<KnownClient> {
 public:
  KnownClient(const WindowOptions& options, std::shared_ptr<Budget> bytes);
  ~KnownClient();

  // Calls `serve` for a request that is new, with a way back that remembers the answer. One that was answered is
  // answered as then, one that is being served as that one will be. Counts those in `repeated`.
  void Once(std::uint64_t sequence, Respond respond, const std::function<void(Respond)>& serve, Counter* repeated);
  // All requests of a lower sequence are answered: their answers go.
  void Acknowledge(std::uint64_t sequence);

  const std::shared_ptr<Tickets>& tickets() const { return tickets_; }

 private:
  struct Remembered {
    bool done = false;
    Answer answer;
    std::size_t bytes = 0;
    std::vector<Respond> waiting;
  };
  using All = std::map<std::uint64_t, Remembered>;

  void Served(std::uint64_t sequence, const Answer& answer);
  // Room for one more; false: all are being served.
  bool MakeRoom();
  void Forget(All::iterator which);
  void Trim();

  const WindowOptions options_;
  const std::shared_ptr<Budget> all_bytes_;
  const std::shared_ptr<Tickets> tickets_;
  std::mutex mutex_;
  All remembered_;
  std::size_t bytes_ = 0;
  // Nothing new has a sequence up to this.
  std::uint64_t forgotten_ = 0;
};

// All clients. Thread-safe.
class Window {
 public:
  using Clock = std::chrono::steady_clock;
  struct Entered {
    std::shared_ptr<KnownClient> client;
    // Why there is none: kUnknownClient or kBusy.
    Failure failure;
  };

  explicit Window(const WindowOptions& options);

  // A connection of the client came, and went. `unanswered`: it has requests with `once` that it sent before.
  Entered Enter(std::uint64_t client, bool unanswered);
  void Leave(std::uint64_t client, Clock::time_point now);
  // Forgets those that have been away for too long.
  void Sweep(Clock::time_point now);
  void ClearTickets();
  std::size_t clients() const;

 private:
  struct Place {
    std::shared_ptr<KnownClient> client;
    std::size_t connections = 0;
    Clock::time_point gone;
  };

  const WindowOptions options_;
  const std::shared_ptr<Budget> bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Place> places_;
};

}  // namespace afo::psplus
