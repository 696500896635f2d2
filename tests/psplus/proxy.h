// A network that is not to be trusted: it cuts connections, delays their bytes, and sends again what it has seen.
#pragma once

#include <cstdint>
#include <memory>

namespace afo::psplus::testing {

struct Misdeeds {
  // Of all chunks that pass, one in so many; 0: none.
  std::uint32_t cuts = 0;
  std::uint32_t delays = 0;
  // All that a client has sent over a connection that was cut is sent over a further one, again.
  bool repeats = false;
  std::uint64_t seed = 1;
};

class Proxy {
 public:
  Proxy(std::uint16_t server, Misdeeds misdeeds);
  ~Proxy();
  std::uint16_t port() const;
  // From now on to another server.
  void SetServer(std::uint16_t server);
  // Everything that is connected is cut.
  void CutAll();
  std::uint64_t cuts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace afo::psplus::testing
