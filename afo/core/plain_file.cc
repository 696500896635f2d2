#include "plain_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace afo {

PlainFile::PlainFile(const std::string& path)
    : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      // A pipe would have its reader wait. No fstat: until glibc 2.33 it was no function of the library's.
      error_(file_ < 0 || lseek(file_, 0, SEEK_CUR) < 0 ? errno : 0) {}

PlainFile::~PlainFile() {
  if (file_ >= 0) close(file_);
}

bool PlainFile::Read(char* to, std::size_t most, std::size_t* got) {
  if (error_ != 0) return Wrong("cannot be opened: " + std::string(std::strerror(error_)));
  ssize_t count;
  do {
    count = read(file_, to, most);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    return Wrong("cannot be read at byte " + std::to_string(offset_) + ": " + std::string(std::strerror(errno)));
  }
  *got = static_cast<std::size_t>(count);
  offset_ += *got;
  return true;
}

}  // namespace afo
