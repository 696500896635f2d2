// Mutual TLS 1.3 over memory: what a connection sends and receives goes in and out of buffers of ours, so that many
// records take one system call.
//
// Both ends present a certificate of the job's authority (afo/rpc/tls.py makes them); a client asks for the name
// `job.afo`. There are no tickets, no renegotiation and no earlier version.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct ssl_ctx_st;
struct ssl_st;

namespace afo::psplus {

// PEM.
struct TlsTexts {
  std::string authority;
  std::string key;
  std::string certificate;

  bool operator==(const TlsTexts&) const = default;
};

enum class TlsEnd { kServer, kClient };

// What all connections of a process share. Thread-safe.
class TlsContext {
 public:
  struct Made {
    std::shared_ptr<TlsContext> context;
    // What is wrong with the texts, without a word of them; empty: nothing.
    std::string wrong;
  };
  static Made Of(TlsEnd end, const TlsTexts& texts);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  TlsContext(ssl_ctx_st* context, TlsEnd end) : context_(context), end_(end) {}

  ssl_ctx_st* const context_;
  const TlsEnd end_;
};


}  // namespace afo::psplus
