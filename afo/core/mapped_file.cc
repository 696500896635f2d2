#include "afo/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#ifndef MADV_POPULATE_READ  // Linux 5.14; older kernels refuse it, and pages come one by one.
#define MADV_POPULATE_READ 22
#endif

namespace afo {
namespace {

constexpr std::size_t kHugePage = 2u << 20;

// Addresses for `bytes` from a huge page on, as a file needs them that the system keeps in huge pages.
std::uint8_t* Addresses(std::size_t bytes) {
  void* raw = mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::uint8_t*>(raw);
  const std::size_t before = (kHugePage - reinterpret_cast<std::size_t>(first) % kHugePage) % kHugePage;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, kHugePage - before);
  return first + before;
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return nullptr;
  struct stat found;
  // The system's own call: until glibc 2.33 fstat was no function of the library's.
  if (syscall(SYS_fstat, file, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size <= 0) {
    close(file);
    return nullptr;
  }
  const Identity identity{found.st_dev, found.st_ino, static_cast<std::uint64_t>(found.st_size),
                          found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
  return std::shared_ptr<MappedFile>(new MappedFile(file, identity));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size());
  close(file_);
}

std::string MappedFile::Read(std::uint64_t offset, char* to, std::size_t size) const {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = pread(file_, to + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return "it cannot be read at byte " + std::to_string(offset + done) + ": " + std::strerror(errno);
    if (count == 0) return "it ends at byte " + std::to_string(offset + done) + ", and was longer when it was opened";
    done += static_cast<std::size_t>(count);
  }
  return "";
}

const std::uint8_t* MappedFile::Map() {
  // Whole pages: what is unmapped around it would not be, otherwise.
  const std::size_t bytes = (size() + 4095) / 4096 * 4096;
  std::uint8_t* place = Addresses(bytes);
  if (place == nullptr) return nullptr;
  if (mmap(place, size(), PROT_READ, MAP_SHARED | MAP_FIXED, file_, 0) == MAP_FAILED) {
    munmap(place, bytes);
    return nullptr;
  }
  data_ = place;
  // A key needs a page or two, and none of those behind them.
  madvise(data_, size(), MADV_RANDOM);
  return data_;
}

void MappedFile::Populate(std::size_t offset, std::size_t size) {
  const std::size_t begin = offset / kHugePage * kHugePage;
  const std::size_t bytes = offset + size - begin;
  madvise(data_ + begin, bytes, MADV_NORMAL);
  madvise(data_ + begin, bytes, MADV_HUGEPAGE);
  madvise(data_ + begin, bytes, MADV_POPULATE_READ);
}

void MappedFile::Forget() {
  if (data_ != nullptr) madvise(data_, size(), MADV_DONTNEED);
}

}  // namespace afo
