// The bytes of a local file, or of a part of it, as they lie there; or those that a whole file unpacks to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

namespace afo {

enum class Compression { kNone, kGzip, kZlib };

// Bytes of a file that are read: from `begin` on, those before `end`.
struct ByteRange {
  static constexpr std::uint64_t kWhole = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t begin = 0;
  std::uint64_t end = kWhole;

  bool is_whole() const { return end == kWhole; }
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads up to `most` bytes and at least one, and returns how many; 0 at the end. Nothing: the file cannot be read any
  // further; `wrong` says why. Precondition: most >= 1.
  [[nodiscard]] virtual std::optional<std::size_t> Read(char* to, std::size_t most) = 0;

  const std::string& wrong() const { return wrong_; }

 protected:
  std::nullopt_t Wrong(const std::string& words) {
    wrong_ = words;
    return std::nullopt;
  }

 private:
  std::string wrong_;
};

// A file that cannot be opened says so at its first read. A compressed one is read as a whole.
std::unique_ptr<ByteSource> OpenBytes(const std::string& path, Compression compression, const ByteRange& range = {});

}  // namespace afo
