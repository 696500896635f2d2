#include "proxy.h"

#include <array>
#include <asio.hpp>
#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace afo::psplus::testing {

using Tcp = asio::ip::tcp;

class Proxy::Impl {
 public:
  Impl(std::uint16_t server, Misdeeds misdeeds)
      : server_(server), misdeeds_(misdeeds), random_(misdeeds.seed), acceptor_(context_, {Loopback(), 0}) {
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { context_.run(); });
  }

  ~Impl() {
    asio::post(context_, [this] {
      stops_ = true;
      acceptor_.close();
      CutNow();
    });
    thread_.join();
  }

  void CutAll() {
    asio::post(context_, [this] { CutNow(); });
  }

  std::uint16_t port_ = 0;
  std::atomic<std::uint64_t> cuts_{0};
  std::atomic<std::uint16_t> server_;

  static asio::ip::address Loopback() { return asio::ip::make_address("127.0.0.1"); }

 private:
  // Two sockets, and what the client has sent.
  struct Pair : std::enable_shared_from_this<Pair> {
    Pair(asio::io_context& context, Tcp::socket client_of)
        : client(std::move(client_of)), server(context), up_timer(context), down_timer(context) {}
    Tcp::socket client, server;
    asio::steady_timer up_timer, down_timer;
    std::string seen;
    bool is_cut = false;
    std::array<char, 20000> up, down;
  };
  using PairPtr = std::shared_ptr<Pair>;

  void Accept() {
    acceptor_.async_accept([this](const std::error_code& error, Tcp::socket socket) {
      if (error || stops_) return;
      auto pair = std::make_shared<Pair>(context_, std::move(socket));
      pairs_.insert(pair);
      pair->server.async_connect({Loopback(), server_.load()}, [this, pair](const std::error_code& failed) {
        if (failed) return Cut(pair);
        Relay(pair, true);
        Relay(pair, false);
      });
      Accept();
    });
  }

  void Relay(const PairPtr& pair, bool is_up) {
    Tcp::socket& from = is_up ? pair->client : pair->server;
    std::array<char, 20000>& chunk = is_up ? pair->up : pair->down;
    const std::size_t most = 1 + random_() % chunk.size();
    from.async_read_some(asio::buffer(chunk.data(), most),
                         [this, pair, is_up](const std::error_code& error, std::size_t size) {
                           if (error || pair->is_cut) return Cut(pair);
                           Pass(pair, is_up, size);
                         });
  }

  void Pass(const PairPtr& pair, bool is_up, std::size_t size) {
    if (is_up && misdeeds_.repeats) pair->seen.append(pair->up.data(), size);
    if (misdeeds_.cuts != 0 && random_() % misdeeds_.cuts == 0) {
      // A part may still arrive.
      size = random_() % (size + 1);
      if (is_up && random_() % 2 == 0) {
        std::error_code ignored;
        pair->server.send(asio::buffer(pair->up.data(), size), 0, ignored);
      }
      return Cut(pair);
    }
    if (misdeeds_.delays == 0 || random_() % misdeeds_.delays != 0) return Write(pair, is_up, size);
    asio::steady_timer& timer = is_up ? pair->up_timer : pair->down_timer;
    timer.expires_after(std::chrono::milliseconds(1 + random_() % 8));
    timer.async_wait([this, pair, is_up, size](const std::error_code& error) {
      if (!error && !pair->is_cut) Write(pair, is_up, size);
    });
  }

  void Write(const PairPtr& pair, bool is_up, std::size_t size) {
    Tcp::socket& to = is_up ? pair->server : pair->client;
    const char* data = is_up ? pair->up.data() : pair->down.data();
    asio::async_write(to, asio::buffer(data, size), [this, pair, is_up](const std::error_code& error, std::size_t) {
      if (error || pair->is_cut) return Cut(pair);
      Relay(pair, is_up);
    });
  }

  void Cut(const PairPtr& pair) {
    if (std::exchange(pair->is_cut, true)) return;
    std::error_code ignored;
    pair->client.close(ignored);
    pair->server.close(ignored);
    pair->up_timer.cancel();
    pair->down_timer.cancel();
    pairs_.erase(pair);
    ++cuts_;
    if (misdeeds_.repeats && !stops_ && !pair->seen.empty()) Repeat(std::move(pair->seen));
  }

  // Some time later, so that the client itself may have sent it again before.
  void Repeat(std::string seen) {
    struct Again {
      explicit Again(asio::io_context& context) : socket(context), timer(context) {}
      Tcp::socket socket;
      asio::steady_timer timer;
      std::string bytes;
    };
    const auto again = std::make_shared<Again>(context_);
    again->bytes = std::move(seen);
    again->timer.expires_after(std::chrono::milliseconds(random_() % 20));
    again->timer.async_wait([this, again](const std::error_code&) {
      std::error_code ignored;
      again->socket.connect({Loopback(), server_.load()}, ignored);
      asio::async_write(again->socket, asio::buffer(again->bytes), [again](const std::error_code&, std::size_t) {
        // Kept for a while: what is closed at once the server may not read.
        again->timer.expires_after(std::chrono::milliseconds(20));
        again->timer.async_wait([again](const std::error_code&) {});
      });
    });
  }

  void CutNow() {
    const std::set<PairPtr> all = pairs_;
    for (const PairPtr& pair : all) Cut(pair);
  }

  const Misdeeds misdeeds_;
  std::mt19937_64 random_;
  asio::io_context context_;
  Tcp::acceptor acceptor_;
  std::set<PairPtr> pairs_;
  bool stops_ = false;
  std::thread thread_;
};

Proxy::Proxy(std::uint16_t server, Misdeeds misdeeds) : impl_(std::make_unique<Impl>(server, misdeeds)) {}
Proxy::~Proxy() = default;
std::uint16_t Proxy::port() const { return impl_->port_; }
void Proxy::SetServer(std::uint16_t server) { impl_->server_ = server; }
void Proxy::CutAll() { impl_->CutAll(); }
std::uint64_t Proxy::cuts() const { return impl_->cuts_; }

}  // namespace afo::psplus::testing
