// A local file that is only read, mapped and by its descriptor. Its pages are those of the system's cache, so processes
// that map the same file share them.
//
// A page that the disk does not give, or that is cut off the file, ends the process that touches it (SIGBUS): files
// that are mapped are replaced by others, never changed. By the descriptor it is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

namespace afo {

class MappedFile {
 public:
  // Device, inode, size and time of the last change: the same for names of one file, another for one in its place.
  using Identity = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::int64_t>;

  // nullptr where it cannot be opened, or has no bytes.
  static std::shared_ptr<MappedFile> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::uint64_t size() const { return std::get<2>(identity_); }
  const Identity& identity() const { return identity_; }
  // Reads by the descriptor. Returns what is wrong, or nothing. Thread-safe.
  [[nodiscard]] std::string Read(std::uint64_t offset, char* to, std::size_t size) const;

  // Its bytes in memory, for pages one by one as they are touched; nullptr where the system does not map it.
  const std::uint8_t* Map();
  // Asks for the pages of a range, in order and large where the system has such for files.
  void Populate(std::size_t offset, std::size_t size);
  // Gives mapped pages back; they come again where somebody touches them.
  void Forget();

 private:
  MappedFile(int file, const Identity& identity) : file_(file), identity_(identity) {}

  const int file_;
  const Identity identity_;
  std::uint8_t* data_ = nullptr;
};

}  // namespace afo
