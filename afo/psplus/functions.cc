// The C interface of the parameter server's library, which afo/psplus/server_library.py loads.
#include <openssl/ssl.h>

#include <asio/version.hpp>
#include <string>

#define AFO_EXPORT extern "C" __attribute__((visibility("default")))

// What the library was built of and with, for people: valid for as long as the library is loaded.
AFO_EXPORT const char* afo_psplus_versions() {
  static const std::string versions = std::string(OpenSSL_version(OPENSSL_VERSION)) + ", Asio " +
                                      std::to_string(ASIO_VERSION / 100000) + "." +
                                      std::to_string(ASIO_VERSION / 100 % 1000) + "." +
                                      std::to_string(ASIO_VERSION % 100) + ", GCC " __VERSION__;
  return versions.c_str();
}
