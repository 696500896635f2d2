#include "afo/psplus/sockets.h"

#include <netinet/tcp.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>

namespace afo::psplus {
namespace {

using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
using Idle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
using Probes = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
using Unacknowledged = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;

constexpr int kProbes = 3;

}  // namespace

std::optional<HostPort> SplitAddress(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) return std::nullopt;
  std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  const bool is_number = std::all_of(port.begin(), port.end(), [](char each) { return each >= '0' && each <= '9'; });
  if (host.empty() || !is_number || port.size() > 5 || std::stoi(port) < 1 || std::stoi(port) > 65535) return std::nullopt;
  return HostPort{std::move(host), std::move(port)};
}

// A socket that takes none of these works without.
void SetOptions(asio::ip::tcp::socket* socket, std::chrono::milliseconds silence) {
  std::error_code ignored;
  const int seconds = std::max(1, static_cast<int>(silence.count() / 1000));
  socket->set_option(asio::ip::tcp::no_delay(true), ignored);
  socket->set_option(asio::socket_base::keep_alive(true), ignored);
  socket->set_option(Idle(seconds), ignored);
  socket->set_option(Interval(std::max(1, seconds / kProbes)), ignored);
  socket->set_option(Probes(kProbes), ignored);
  socket->set_option(Unacknowledged(static_cast<int>(silence.count())), ignored);
}

std::size_t MostFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<std::size_t>(limit.rlim_cur);
}

std::uint64_t RandomBits() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace afo::psplus
