// TFRecord files: records one behind the other, each with its checksums.
//
//   record := { length u64 | masked crc32c of the length u32 | data | masked crc32c of the data u32 }, little-endian
//   masked := the sum rotated right by 15 bits, plus 0xa282ead8
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace afo {

class RecordFile {
 public:
  enum class Found {
    kRecord,
    kEnd,
    kDamaged,  // the data of one record; the next one can be read
    kLost,     // a length or the file's end: nobody knows where the next record begins
  };

  // A file that cannot be opened is kLost at its first record.
  explicit RecordFile(const std::string& path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // The next record, which stays where it is until the next call; a damaged one, too. After kEnd and kLost there is no
  // more.
  [[nodiscard]] Found Next(std::string_view* record);

  // What is wrong with what was found last, and at which offset.
  const std::string& wrong() const { return wrong_; }

 private:
  bool Have(std::uint64_t size);
  // Bytes of the file that were not used up.
  std::uint64_t Present() const { return end_ - begin_ + left_; }
  std::string Place() const;
  Found Lost(const std::string& words);
  Found CutOff(std::uint64_t present, const std::string& all);

  int file_ = -1;
  std::uint64_t left_ = 0;  // bytes of the file behind the buffer
  std::uint64_t offset_ = 0;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // what is not used up of the buffer
  std::size_t end_ = 0;
  std::string wrong_;
  bool is_over_ = false;
};

}  // namespace afo
