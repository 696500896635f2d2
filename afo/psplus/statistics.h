// What a server counts: cheap enough to be counted always.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace afo::psplus {

// Kinds of requests that are counted apart; the last has all from there on.
inline constexpr std::size_t kCountedKinds = 32;
// The first bucket has what took less than a microsecond, each other one twice as long as that before.
inline constexpr std::size_t kBuckets = 32;
using Buckets = std::array<std::uint64_t, kBuckets>;

// The upper end in microseconds of the bucket in which so large a part of what was counted ends; 0: nothing was.
std::uint64_t Quantile(const Buckets& buckets, double part);

struct KindStatistics {
  std::uint64_t requests = 0;
  std::uint64_t failures = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  // From the first byte of a request that the loop saw until the service had it, and from there to its answer.
  Buckets queued{};
  Buckets served{};
};

struct ServerStatistics {
  std::array<KindStatistics, kCountedKinds> kinds{};
  std::uint64_t bytes_in = 0;   // of connections, encryption included
  std::uint64_t bytes_out = 0;
  std::uint64_t open_connections = 0;
  std::uint64_t bytes_in_flight = 0;
  std::uint64_t known_clients = 0;
  std::uint64_t accepted = 0;
  std::uint64_t refused_connections = 0;  // above the limit
  std::uint64_t refused_handshakes = 0;   // no secret, no hello, or too late
  std::uint64_t malformed_frames = 0;
  std::uint64_t late_frames = 0;  // whose rest did not come
  std::uint64_t slow_readers = 0;
  std::uint64_t accept_errors = 0;
  std::uint64_t repeated = 0;        // requests answered from memory
  std::uint64_t other_versions = 0;  // requests of another store version
};

// One number that several threads add to, none of which waits.
class Counter {
 public:
  void Add(std::uint64_t count = 1) { value_.fetch_add(count, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Bytes of connections, encryption included.
struct Traffic {
  Counter in;
  Counter out;
};

class Histogram {
 public:
  void Add(std::chrono::nanoseconds time);
  Buckets values() const;

 private:
  std::array<Counter, kBuckets> buckets_;
};

}  // namespace afo::psplus
