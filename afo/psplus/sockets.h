// What is the system's: addresses and options of sockets, and limits of the process.
#pragma once

#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace afo::psplus {

struct HostPort {
  std::string host;
  std::string port;
};
// "host:port", "[host]:port"; nothing where it is none.
std::optional<HostPort> SplitAddress(const std::string& address);

// No delay of small frames, and an error once the peer's machine has been silent for about so long.
void SetOptions(asio::ip::tcp::socket* socket, std::chrono::milliseconds silence);

// Files that the process may open.
std::size_t MostFiles();

std::uint64_t RandomBits();

}  // namespace afo::psplus
