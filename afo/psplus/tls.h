// Mutual TLS 1.3 over memory: what a connection sends and receives goes in and out of buffers of ours, so that many
// records take one system call.
//
// Both ends present a certificate of the job's authority (afo/rpc/tls.py makes them); a client asks for the name
// `job.afo`. There are no tickets, no renegotiation and no earlier version.
#pragma once

#include <cstddef>
#include <cstdint>
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

// Encrypted bytes that came and are not used yet; somebody else's.
struct TlsInput {
  const char* data = nullptr;
  std::size_t size = 0;
};

// Encrypted bytes that are to go, in a block of a fixed size: what does not fit waits for room.
struct TlsOutput {
  char* block = nullptr;
  std::size_t capacity = 0;
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  std::size_t room() const { return capacity - end; }
};

// Plain bytes of a record, and room for one, which also has a head and a sum.
inline constexpr std::size_t kTlsRecord = 16384;
inline constexpr std::size_t kTlsRecordRoom = kTlsRecord + 256;

// One connection's end. `input` and `output` are its caller's and outlive it.
class TlsSession {
 public:
  enum class State { kDone, kWants, kEnded, kBroken };
  struct Step {
    State state;
    std::size_t bytes = 0;
  };

  // What AES-GCM may encrypt with one key is 24 million records (RFC 8446, 5.5); each key is for so many.
  static constexpr std::uint64_t kRecordsAKey = 1 << 22;

  TlsSession(std::shared_ptr<TlsContext> context, TlsInput* input, TlsOutput* output,
             std::uint64_t records_a_key = kRecordsAKey);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // kWants: `input` is used up, and `output` may have something that is to be sent first.
  State Handshake();
  // At most a record, and no more than `size`.
  Step Read(char* to, std::size_t size);
  // All of it or kBroken. Preconditions: at most kTlsRecord bytes, and kTlsRecordRoom of room.
  State Write(const char* data, std::size_t size);
  // Of the last call that was kBroken.
  std::string why() const;

 private:
  State StateOf(int returned);

  const std::shared_ptr<TlsContext> context_;
  ssl_st* ssl_ = nullptr;
  TlsInput* const input_;
  TlsOutput* const output_;
  const std::uint64_t records_a_key_;
  std::uint64_t records_ = 0;
  std::string why_;

  friend struct TlsMemory;
};

}  // namespace afo::psplus
