#include "afo/psplus/server.h"

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <unordered_map>
#include <utility>
#include <vector>

#include "afo/psplus/connection.h"
#include "afo/psplus/loop.h"
#include "afo/psplus/sockets.h"

namespace afo::psplus {
namespace {

using Tcp = asio::ip::tcp;
using std::chrono::milliseconds;

// Files of the process besides connections.
constexpr std::size_t kOtherFiles = 128;

// How often deadlines are looked at.
milliseconds TickOf(const ServerOptions& options) {
  const milliseconds shortest = std::min({options.handshake_deadline, options.frame_deadline, options.reader_deadline,
                                          options.window.forget_after});
  return std::clamp(shortest / 8, milliseconds(5), milliseconds(500));
}

std::string WrongIn(const ServerOptions& options) {
  if (!options.tls && !options.plain) return "neither a certificate is given nor plain connections are asked for";
  if (options.tls && options.plain) return "a certificate is given and plain connections are asked for";
  if (options.loops < 1 || options.loops > 256) {
    return "there are to be " + std::to_string(options.loops) + " loops where 1 to 256 are allowed";
  }
  const std::size_t least = std::min({options.frame_bytes, options.connection_bytes, options.process_bytes,
                                      options.connection_requests, options.connections, options.window.requests,
                                      options.window.clients});
  if (least == 0) return "a bound is 0";
  const milliseconds shortest = std::min({options.handshake_deadline, options.frame_deadline, options.reader_deadline,
                                          options.accept_pause, options.window.forget_after});
  if (shortest <= milliseconds(0)) return "a deadline is not above 0";
  return {};
}

// Of one loop, touched there alone, but for the count.
struct Place {
  explicit Place(std::shared_ptr<Loop> of) : loop(std::move(of)), tick(loop->context()) {}

  const std::shared_ptr<Loop> loop;
  asio::steady_timer tick;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  std::atomic<std::size_t> count{0};
  bool stops = false;
};

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, Service* service, std::shared_ptr<TlsContext> tls)
      : core_(std::make_shared<ServerCore>(options, service, std::move(tls))),
        tick_(TickOf(options)),
        most_(MostConnections(options.connections)) {}
  ~Impl() { Stop(); }

  std::string Start();
  void Stop();
  std::uint16_t port() const { return port_; }
  ServerCore& core() { return *core_; }
  ServerStatistics statistics() const;

 private:
  static std::size_t MostConnections(std::size_t wanted) {
    const std::size_t files = MostFiles();
    return files <= kOtherFiles ? 1 : std::min(wanted, files - kOtherFiles);
  }

  std::string Listen();
  void Accept();
  void Accepted(const std::error_code& error, Tcp::socket socket, Place* place);
  void Tick(Place* place);
  void StopPlace(Place* place);
  std::size_t open() const;

  const std::shared_ptr<ServerCore> core_;
  const milliseconds tick_;
  const std::size_t most_;
  std::vector<std::unique_ptr<Place>> places_;
  // On the first loop.
  std::unique_ptr<Tcp::acceptor> acceptor_;
  std::unique_ptr<asio::steady_timer> pause_;
  std::uint16_t port_ = 0;
  bool stopped_ = false;
};

std::string Server::Impl::Start() {
  for (int i = 0; i < core_->options.loops; ++i) {
    places_.push_back(std::make_unique<Place>(std::make_shared<Loop>()));
  }
  if (std::string wrong = Listen(); !wrong.empty()) return wrong;
  for (const auto& place : places_) {
    if (!place->loop->Start()) return "the system has no thread left for a loop";
    place->loop->Post([this, each = place.get()] { Tick(each); });
  }
  places_.front()->loop->Post([this] { Accept(); });
  return {};
}

std::string Server::Impl::Listen() {
  const ServerOptions& options = core_->options;
  std::error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (error) return "host " + options.host + " is no address";
  const Tcp::endpoint endpoint(address, options.port);
  acceptor_ = std::make_unique<Tcp::acceptor>(places_.front()->loop->context());
  pause_ = std::make_unique<asio::steady_timer>(places_.front()->loop->context());
  acceptor_->open(endpoint.protocol(), error);
  if (!error) acceptor_->set_option(Tcp::acceptor::reuse_address(true), error);
  // A socket that does not listen may keep the port for it.
  using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;
  if (!error && options.port != 0) acceptor_->set_option(ReusePort(true), error);
  if (!error) acceptor_->bind(endpoint, error);
  if (!error) acceptor_->listen(asio::socket_base::max_listen_connections, error);
  if (!error) port_ = acceptor_->local_endpoint(error).port();
  if (error) return "port " + std::to_string(options.port) + " of " + options.host + ": " + error.message();
  return {};
}

void Server::Impl::Accept() {
  const auto least = std::min_element(places_.begin(), places_.end(),
                                      [](const auto& a, const auto& b) { return a->count < b->count; });
  Place* place = least->get();
  acceptor_->async_accept(place->loop->context(), [this, place](const std::error_code& error, Tcp::socket socket) {
    if (!places_.front()->stops) Accepted(error, std::move(socket), place);
  });
}

void Server::Impl::Accepted(const std::error_code& error, Tcp::socket socket, Place* place) {
  if (error) {
    core_->accept_errors.Add();
    pause_->expires_after(core_->options.accept_pause);
    return pause_->async_wait([this](const std::error_code& ended) {
      if (!ended && !places_.front()->stops) Accept();
    });
  }
  if (open() >= most_) {
    core_->refused_connections.Add();
    return Accept();
  }
  core_->accepted.Add();
  ++place->count;
  SetOptions(&socket, core_->options.reader_deadline);
  auto connection = std::make_shared<Connection>(core_, place->loop, std::move(socket), [place](Connection* gone) {
    --place->count;
    place->connections.erase(gone);
  });
  place->loop->Post([place, connection] {
    place->connections.emplace(connection.get(), connection);
    connection->Open();
  });
  Accept();
}

void Server::Impl::Tick(Place* place) {
  if (place->stops) return;
  const auto now = Link::Clock::now();
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [key, connection] : place->connections) all.push_back(connection);
  for (const auto& connection : all) connection->Sweep(now);
  if (place == places_.front().get()) core_->window.Sweep(now);
  place->tick.expires_after(tick_);
  place->tick.async_wait([this, place](const std::error_code& error) {
    if (!error) Tick(place);
  });
}

// The first loop, which accepts, is stopped first: it gives others no connections any more.
void Server::Impl::Stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& place : places_) {
    place->loop->Post([this, each = place.get()] { StopPlace(each); });
    place->loop->Drain();
  }
}

void Server::Impl::StopPlace(Place* place) {
  place->stops = true;
  place->tick.cancel();
  if (place == places_.front().get()) {
    std::error_code ignored;
    if (acceptor_ != nullptr) acceptor_->close(ignored);
    if (pause_ != nullptr) pause_->cancel();
  }
  auto all = std::move(place->connections);
  place->connections.clear();
  for (const auto& [key, connection] : all) connection->Close(Link::End::kLocal, "the server stops");
}

std::size_t Server::Impl::open() const {
  std::size_t open = 0;
  for (const auto& place : places_) open += place->count;
  return open;
}

ServerStatistics Server::Impl::statistics() const {
  ServerStatistics all;
  for (std::size_t i = 0; i < kCountedKinds; ++i) {
    const KindCounters& from = core_->kinds[i];
    all.kinds[i] = {from.requests.value(), from.failures.value(), from.bytes_in.value(), from.bytes_out.value(),
                    from.queued.values(), from.served.values()};
  }
  all.bytes_in = core_->traffic.in.value();
  all.bytes_out = core_->traffic.out.value();
  all.open_connections = open();
  all.bytes_in_flight = core_->bytes.taken();
  all.known_clients = core_->window.clients();
  all.accepted = core_->accepted.value();
  all.refused_connections = core_->refused_connections.value();
  all.refused_handshakes = core_->refused_handshakes.value();
  all.malformed_frames = core_->malformed_frames.value();
  all.late_frames = core_->late_frames.value();
  all.slow_readers = core_->slow_readers.value();
  all.accept_errors = core_->accept_errors.value();
  all.repeated = core_->repeated.value();
  all.other_versions = core_->other_versions.value();
  return all;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Server::Started Server::Start(const ServerOptions& options, Service* service) {
  if (std::string wrong = WrongIn(options); !wrong.empty()) return {nullptr, std::move(wrong)};
  std::shared_ptr<TlsContext> tls;
  if (options.tls) {
    TlsContext::Made made = TlsContext::Of(TlsEnd::kServer, *options.tls);
    if (made.context == nullptr) return {nullptr, std::move(made.wrong)};
    tls = std::move(made.context);
  }
  auto impl = std::make_unique<Impl>(options, service, std::move(tls));
  std::string wrong = impl->Start();
  if (!wrong.empty()) return {nullptr, std::move(wrong)};
  return {std::unique_ptr<Server>(new Server(std::move(impl))), {}};
}

void Server::Stop() { impl_->Stop(); }
std::uint16_t Server::port() const { return impl_->port(); }
std::uint64_t Server::store_version() const { return impl_->core().store_version; }
ServerStatistics Server::statistics() const { return impl_->statistics(); }

void Server::SetStoreVersion(std::uint64_t version) {
  impl_->core().store_version = version;
  impl_->core().window.ClearTickets();
}

}  // namespace afo::psplus
