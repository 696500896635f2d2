// The bytes of a local file from its start to its end, as they lie there or unpacked.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace afo {

enum class Compression { kNone, kGzip, kZlib };

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Up to `most` bytes and at least one, 0 at the end. False: the file cannot be read any further; `wrong` says why.
  [[nodiscard]] virtual bool Read(char* to, std::size_t most, std::size_t* got) = 0;

  const std::string& wrong() const { return wrong_; }

 protected:
  bool Wrong(const std::string& words) {
    wrong_ = words;
    return false;
  }

 private:
  std::string wrong_;
};

// A file that cannot be opened says so at its first read.
std::unique_ptr<ByteSource> OpenBytes(const std::string& path, Compression compression);

}  // namespace afo
