#include "afo/core/plain_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

namespace afo {

PlainFile::PlainFile(const std::string& path, const ByteRange& range)
      // A pipe has no places to seek to, and would have its reader wait, already when it is opened. No fstat: until glibc
      // 2.33 it was no function of the library's.
    : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      error_(file_ < 0 || lseek(file_, static_cast<off_t>(range.begin), SEEK_SET) < 0 ? errno : 0),
      offset_(range.begin),
      end_(range.end) {}

PlainFile::~PlainFile() {
  if (file_ >= 0) close(file_);
}

std::optional<std::size_t> PlainFile::Read(char* to, std::size_t most) {
  assert(most >= 1);
  if (error_ != 0) return Wrong("cannot be opened: " + std::string(std::strerror(error_)));
  ssize_t count;
  do {
    count = read(file_, to, static_cast<std::size_t>(std::min<std::uint64_t>(most, end_ - offset_)));
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    return Wrong("cannot be read at byte " + std::to_string(offset_) + ": " + std::string(std::strerror(errno)));
  }
  offset_ += static_cast<std::uint64_t>(count);
  return static_cast<std::size_t>(count);
}

}  // namespace afo
