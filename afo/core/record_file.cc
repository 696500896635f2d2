#include "afo/core/record_file.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "afo/core/snapshot.h"

namespace afo {
namespace {

constexpr std::uint64_t kHeader = 12, kSum = 4;
// Protobuf itself reads no message of 2 GiB.
constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - 1;

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

RecordFile::Record RecordFile::Next() {
  if (is_over_) return {wrong_.empty() ? Found::kEnd : Found::kLost, {}};
  if (!Have(kHeader)) {
    if (!wrong_.empty() || end_ > begin_ || !(range_.is_whole() || offset_ == range_.end)) {
      return {CutOff("the 12 bytes of its header"), {}};
    }
    is_over_ = true;
    return {Found::kEnd, {}};
  }
  const char* header = buffer_.data() + begin_;
  const auto size = At<std::uint64_t>(header);
  if (At<std::uint32_t>(header + 8) != Masked(header, 8)) {
    const char* hint = offset_ != range_.begin ? ""
                       : range_.is_whole()     ? "; is it a TFRecord file?"
                                               : "; no record of the file begins here: its index is of another one";
    return {Lost("length of the " + Place() + " is damaged: wrong checksum" + hint), {}};
  }
  if (size > kMostBytes) {
    return {Lost(Place() + " claims " + std::to_string(size) + " bytes; the most is " + std::to_string(kMostBytes)), {}};
  }
  const std::uint64_t whole = kHeader + size + kSum;
  if (!Have(whole)) return {CutOff("its " + std::to_string(whole) + " bytes"), {}};
  const char* data = buffer_.data() + begin_ + kHeader;
  const bool is_sound = At<std::uint32_t>(data + size) == Masked(data, size);
  if (!is_sound) {
    wrong_ = "data of the " + Place() + " is damaged: wrong checksum over " + std::to_string(size) + " bytes";
  }
  begin_ += whole;
  offset_ += whole;
  return {is_sound ? Found::kRecord : Found::kDamaged, {data, static_cast<std::size_t>(size)}};
}

std::string RecordFile::Place() const { return "record at offset " + std::to_string(offset_); }

// Whether so many bytes are in the buffer, read there where they are not. Claims at most twice the memory that the file
// has filled.
bool RecordFile::Have(std::uint64_t size) {
  wrong_.clear();
  if (end_ - begin_ >= size) return true;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < size) {
    if (end_ == buffer_.size()) buffer_.resize(std::min<std::uint64_t>(size, 2 * buffer_.size()));
    const std::optional<std::size_t> got = source_->Read(buffer_.data() + end_, buffer_.size() - end_);
    if (!got.has_value()) wrong_ = source_->wrong();
    if (got.value_or(0) == 0) return false;
    end_ += *got;
  }
  return true;
}

RecordFile::Found RecordFile::CutOff(const std::string& all) {
  if (!wrong_.empty()) return Lost(wrong_);
  if (!range_.is_whole()) {
    return Lost(Place() + " does not end within its split, which ends at " + std::to_string(range_.end) +
                ": the file is cut off, or its index is of another one");
  }
  return Lost(Place() + " is cut off: " + std::to_string(end_ - begin_) + " of " + all +
              " are there; copy or write the file again");
}

RecordFile::Found RecordFile::Lost(const std::string& words) {
  wrong_ = words;
  is_over_ = true;
  return Found::kLost;
}

}  // namespace afo
