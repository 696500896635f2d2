#include "afo/ops/psplus/client_registry.h"

#include <map>
#include <mutex>
#include <utility>

namespace afo {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<NamedClient>> clients;
};

// Never destroyed: operations may ask while the process ends.
Registry& TheRegistry() {
  static Registry* const registry = new Registry();
  return *registry;
}

}  // namespace

std::string NamedClient::SetServers(std::uint64_t store_version, const std::vector<std::string>& addresses) {
  std::string wrong = client_->SetServers(store_version, addresses);
  if (wrong.empty()) store_version_ = store_version;
  return wrong;
}

std::shared_ptr<NamedClient> FindClient(const std::string& name) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.clients.find(name);
  return found == registry.clients.end() ? nullptr : found->second;
}

std::string OpenClient(const std::string& name, const psplus::ClientOptions& options) {
  psplus::Client::Made made = psplus::Client::Of(options);
  if (!made.wrong.empty()) return std::move(made.wrong);
  auto client = std::make_shared<NamedClient>(std::move(made.client));
  Registry& registry = TheRegistry();
  {
    const std::lock_guard lock(registry.mutex);
    // The one before ends outside of the lock.
    registry.clients[name].swap(client);
  }
  return "";
}

void CloseClient(const std::string& name) {
  Registry& registry = TheRegistry();
  // It ends outside of the lock.
  std::shared_ptr<NamedClient> client;
  {
    const std::lock_guard lock(registry.mutex);
    const auto found = registry.clients.find(name);
    if (found == registry.clients.end()) return;
    client = std::move(found->second);
    registry.clients.erase(found);
  }
}

}  // namespace afo
