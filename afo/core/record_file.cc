#include "record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "snapshot.h"

namespace afo {
namespace {

constexpr std::uint64_t kHeader = 12, kSum = 4;
// Protobuf itself reads no message of 2 GiB.
constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - 1;
constexpr std::size_t kBlock = 1 << 20;

std::uint32_t Masked(const char* data, std::size_t size) {
  const std::uint32_t sum = Crc32c(data, size);
  return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

template <typename T>
T At(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

}  // namespace

RecordFile::RecordFile(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), buffer_(kBlock) {
  struct stat about;
  if (file_ < 0 || fstat(file_, &about) != 0) {
    wrong_ = "cannot be opened: " + std::string(std::strerror(errno));
    is_over_ = true;
    return;
  }
  left_ = static_cast<std::uint64_t>(about.st_size);
}

RecordFile::~RecordFile() {
  if (file_ >= 0) close(file_);
}

RecordFile::Found RecordFile::Next(std::string_view* record) {
  if (is_over_) return wrong_.empty() ? Found::kEnd : Found::kLost;
  if (!Have(kHeader)) {
    if (!wrong_.empty() || Present() > 0) return CutOff(Present(), "the 12 bytes of its header");
    is_over_ = true;
    return Found::kEnd;
  }
  const char* header = buffer_.data() + begin_;
  const auto size = At<std::uint64_t>(header);
  if (At<std::uint32_t>(header + 8) != Masked(header, 8)) {
    return Lost("length of the " + Place() + " is damaged: wrong checksum" +
                (offset_ == 0 ? "; is it a TFRecord file?" : ""));
  }
  if (size > kMostBytes) {
    return Lost(Place() + " claims " + std::to_string(size) + " bytes; the most is " + std::to_string(kMostBytes));
  }
  const std::uint64_t whole = kHeader + size + kSum;
  if (!Have(whole)) return CutOff(Present(), "its " + std::to_string(whole) + " bytes");
  const char* data = buffer_.data() + begin_ + kHeader;
  const bool is_sound = At<std::uint32_t>(data + size) == Masked(data, size);
  if (!is_sound) {
    wrong_ = "data of the " + Place() + " is damaged: wrong checksum over " + std::to_string(size) + " bytes";
  }
  begin_ += whole;
  offset_ += whole;
  *record = {data, static_cast<std::size_t>(size)};
  return is_sound ? Found::kRecord : Found::kDamaged;
}

std::string RecordFile::Place() const { return "record at offset " + std::to_string(offset_); }

// Whether so many bytes are in the buffer, read there where they are not. Claims no memory that the file cannot fill.
bool RecordFile::Have(std::uint64_t size) {
  wrong_.clear();
  if (end_ - begin_ >= size) return true;
  if (end_ - begin_ + left_ < size) return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() < size) buffer_.resize(size);
  while (end_ < size) {
    const ssize_t got = read(file_, buffer_.data() + end_, std::min<std::uint64_t>(buffer_.size() - end_, left_));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      wrong_ = "cannot be read at offset " + std::to_string(offset_) + ": " +
               (got < 0 ? std::strerror(errno) : "it has become shorter");
      return false;
    }
    end_ += static_cast<std::size_t>(got);
    left_ -= static_cast<std::uint64_t>(got);
  }
  return true;
}

RecordFile::Found RecordFile::CutOff(std::uint64_t present, const std::string& all) {
  if (!wrong_.empty()) return Lost(wrong_);
  return Lost(Place() + " is cut off: " + std::to_string(present) + " of " + all +
              " are there; copy or write the file again");
}

RecordFile::Found RecordFile::Lost(const std::string& words) {
  wrong_ = words;
  is_over_ = true;
  return Found::kLost;
}

}  // namespace afo
