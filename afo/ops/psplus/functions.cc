// C functions by which Python (afo/embedding/plus_client.py) opens clients of parameter servers.

#include <cstdint>
#include <string>
#include <vector>

#include "afo/ops/psplus/client_registry.h"
#include "afo/psplus/problem.h"
#include "afo/psplus/store_service.h"

#define AFO_EXPORT extern "C" __attribute__((visibility("default")))

// authority, key, certificate: PEM. 0, or 1 and why in `problem`.
AFO_EXPORT int afo_psplus_open(const char* name, const char* authority, const char* key, const char* certificate,
                               std::int64_t connect_ms, char* problem, std::int64_t size) {
  afo::psplus::ClientOptions options;
  options.tls = afo::psplus::TlsTexts{authority, key, certificate};
  options.frame_bytes = afo::psplus::kMostMessageBytes;
  options.bytes = 2 * afo::psplus::kMostMessageBytes;
  options.connect_deadline = std::chrono::milliseconds(connect_ms);
  return afo::psplus::Tell(afo::OpenClient(name, options), problem, size);
}

AFO_EXPORT int afo_psplus_set_servers(const char* name, std::uint64_t store_version, const char* const* addresses,
                                      std::int64_t count, char* problem, std::int64_t size) {
  const auto client = afo::FindClient(name);
  if (client == nullptr) return afo::psplus::Tell("there is no such client", problem, size);
  return afo::psplus::Tell(client->SetServers(store_version, {addresses, addresses + count}), problem, size);
}

// See `Client::losses`.
AFO_EXPORT std::uint64_t afo_psplus_losses(const char* name) {
  const auto client = afo::FindClient(name);
  return client == nullptr ? 0 : client->client().losses();
}

AFO_EXPORT void afo_psplus_close(const char* name) { afo::CloseClient(name); }
