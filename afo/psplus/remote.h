// One server, as its client sees it: the questions that it has not answered, and the connection that carries them.
//
// Questions are sent in the order of their sequences, on each connection: what the server has seen of them is all up to
// some number, which is what its memory of answers relies on (window.h).
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "afo/psplus/client.h"
#include "afo/psplus/link.h"
#include "afo/psplus/loop.h"
#include "afo/psplus/sockets.h"
#include "afo/psplus/statistics.h"

namespace afo::psplus {

// What all remotes of a client share.
struct ClientCore {
  ClientOptions options;
  std::shared_ptr<TlsContext> tls;
  std::uint64_t id = 0;
  std::atomic<std::uint64_t> sequences{0};
  Counter losses;
  Traffic traffic;
};

class Remote;

// A connection to a server. Its remote may be gone before it.
class ClientLink final : public Link {
 public:
  ClientLink(std::shared_ptr<ClientCore> core, std::shared_ptr<Loop> loop, asio::ip::tcp::socket socket,
             std::weak_ptr<Remote> remote);

 private:
  void OnOpen() override;
  Admission OnHeader(const FrameHeader& header) override;
  void OnFrame(Received received) override;
  void OnSent(std::size_t) override {}
  void OnEnd(End end, const std::string& why) override;

  const std::shared_ptr<ClientCore> core_;
  const std::weak_ptr<Remote> remote_;
};

class Remote : public std::enable_shared_from_this<Remote> {
 public:
  using Clock = Link::Clock;

  Remote(std::shared_ptr<ClientCore> core, std::shared_ptr<Loop> loop, std::string address, HostPort place);

  // From any thread. The sequence; 0 where it is refused, and `done` was called.
  std::uint64_t Ask(Question question, Done done);
  // From any thread: nothing is asked any more, and what was ends so.
  void End(const Failure& failure);

 private:
  friend class ClientLink;
  struct Pending {
    Question question;
    Done done;
    Clock::time_point deadline;
    std::size_t bytes;
    // On any connection.
    bool was_sent = false;
  };
  using All = std::map<std::uint64_t, Pending>;

  Failure Refusal(std::size_t bytes) const;
  void TakeNew();
  void EndAll(const Failure& failure);
  void Finish(All::iterator which, Outcome outcome);
  void FinishFailed(All::iterator which, Failure failure);

  void Connect();
  void ConnectTo(const asio::ip::tcp::resolver::results_type& endpoints, std::uint64_t attempt);
  void Connected(const std::error_code& error, std::uint64_t attempt);
  void Lost(const std::string& why);
  void Greet();
  void Welcomed();
  void Fill();
  void SendOne(All::iterator which);
  void Received(const FrameHeader& header, std::shared_ptr<Buffer> payload);
  void Failed(const FrameHeader& header, std::shared_ptr<Buffer> payload);
  void NotWelcomed(Failure failure);

  void Tick();
  void EndLate(Clock::time_point now);
  void GiveUp();
  void SetTick();

  const std::shared_ptr<ClientCore> core_;
  const std::shared_ptr<Loop> loop_;
  const std::string address_;
  const HostPort place_;

  // Of any thread.
  std::mutex mutex_;
  std::deque<std::pair<std::uint64_t, Pending>> new_;
  bool wakes_ = false, ended_ = false;
  Failure end_;
  std::size_t questions_ = 0, bytes_ = 0;

  // Of the loop.
  All pending_;
  // The first that was not sent on this connection.
  std::uint64_t next_ = 0;
  std::size_t sent_ = 0;
  std::shared_ptr<ClientLink> link_;
  bool connects_ = false, welcomed_ = false, ticks_ = false, over_ = false;
  std::uint64_t attempts_ = 0;
  std::string last_error_;
  std::chrono::milliseconds pause_;
  Clock::time_point connect_by_;
  std::minstd_rand random_;
  asio::ip::tcp::socket socket_;
  asio::ip::tcp::resolver resolver_;
  asio::steady_timer tick_, back_off_;
};

}  // namespace afo::psplus
