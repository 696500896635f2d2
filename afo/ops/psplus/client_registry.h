// The clients of this process by name: each asks the servers of one job.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "afo/psplus/client.h"

namespace afo {

// A client, and the version of the store that its questions are about. Thread-safe.
class NamedClient {
 public:
  explicit NamedClient(std::unique_ptr<psplus::Client> client) : client_(std::move(client)) {}

  psplus::Client& client() { return *client_; }
  std::uint64_t store_version() const { return store_version_.load(); }
  // Empty, or what is wrong with the addresses.
  [[nodiscard]] std::string SetServers(std::uint64_t store_version, const std::vector<std::string>& addresses);

 private:
  const std::unique_ptr<psplus::Client> client_;
  std::atomic<std::uint64_t> store_version_{0};
};

// Null where there is none of the name.
std::shared_ptr<NamedClient> FindClient(const std::string& name);
// Empty, or what is wrong. One of the same name ends.
std::string OpenClient(const std::string& name, const psplus::ClientOptions& options);
void CloseClient(const std::string& name);

}  // namespace afo
