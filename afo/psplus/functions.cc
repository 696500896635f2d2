// The C interface of the parameter server's library, which afo/psplus/server_library.py loads.
#include <openssl/ssl.h>

#include <asio/version.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "afo/psplus/problem.h"
#include "afo/psplus/server.h"
#include "afo/psplus/store_service.h"

#define AFO_EXPORT extern "C" __attribute__((visibility("default")))

// What the library was built of and with, for people: valid for as long as the library is loaded.
AFO_EXPORT const char* afo_psplus_versions() {
  static const std::string versions =
      std::string(OpenSSL_version(OPENSSL_VERSION)) + ", Asio " + std::to_string(ASIO_VERSION / 100000) + "." +
      std::to_string(ASIO_VERSION / 100 % 1000) + "." + std::to_string(ASIO_VERSION % 100) + ", GCC " __VERSION__;
  return versions.c_str();
}

namespace {

// A server with its service, which outlives it.
struct Running {
  explicit Running(std::shared_ptr<afo::Store> store) : service(std::move(store)) {}

  afo::psplus::StoreService service;
  std::unique_ptr<afo::psplus::Server> server;
};

}  // namespace

// A server of `host`:`port` (0: any), whose store is empty; null, and why in `problem` of `size` bytes, where it cannot
// be. authority, key, certificate: PEM.
AFO_EXPORT Running* afo_psplus_serve(const char* host, std::uint16_t port, std::int64_t loops,
                                     std::uint64_t store_version, const char* authority, const char* key,
                                     const char* certificate, char* problem, std::int64_t size) {
  auto running = std::make_unique<Running>(std::make_shared<afo::Store>());
  afo::psplus::ServerOptions options;
  options.host = host;
  options.port = port;
  options.loops = static_cast<int>(loops);
  options.tls = afo::psplus::TlsTexts{authority, key, certificate};
  options.store_version = store_version;
  // Dense weights go as a whole.
  options.frame_bytes = afo::psplus::kMostMessageBytes;
  afo::psplus::Server::Started started = afo::psplus::Server::Start(options, &running->service);
  if (started.server == nullptr) {
    afo::psplus::Tell(started.wrong, problem, size);
    return nullptr;
  }
  running->server = std::move(started.server);
  return running.release();
}

AFO_EXPORT std::uint16_t afo_psplus_port(const Running* running) { return running->server->port(); }

AFO_EXPORT void afo_psplus_stop(Running* running) { delete running; }
