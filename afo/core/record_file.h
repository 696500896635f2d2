// TFRecord files: records one behind the other, each with its checksums; maybe compressed as a whole.
//
//   record := { length u64 | masked crc32c of the length u32 | data | masked crc32c of the data u32 }, little-endian
//   masked := the sum rotated right by 15 bits, plus 0xa282ead8
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "afo/core/byte_source.h"

namespace afo {

class RecordFile {
 public:
  enum class Found {
    kRecord,
    kEnd,
    kDamaged,  // the data of one record; the next one can be read
    kLost,     // a length or the file's end: nobody knows where the next record begins
  };

  // A file that cannot be opened is kLost at its first record. A part begins with a record and ends with one, or its end
  // is kLost: its records are then those of the file between these places, no more and no fewer.
  explicit RecordFile(const std::string& path, Compression compression = Compression::kNone,
                      const ByteRange& range = {})
      : source_(OpenBytes(path, compression, range)),
        range_(range),
        offset_(range.begin),
        buffer_(std::clamp<std::uint64_t>(range.end - range.begin, kLeast, kBlock)) {}

  struct Record {
    Found found;
    std::string_view data;  // of kRecord and kDamaged; stays where it is until the next call
  };

  // The next record. After kEnd and kLost there is no more.
  [[nodiscard]] Record Next();

  // What is wrong with what was found last, and at which offset of the file (of its uncompressed bytes).
  const std::string& wrong() const { return wrong_; }

 private:
  static constexpr std::uint64_t kLeast = 1 << 6, kBlock = 1 << 20;

  bool Have(std::uint64_t size);
  std::string Place() const;
  Found Lost(const std::string& words);
  Found CutOff(const std::string& all);

  std::unique_ptr<ByteSource> source_;
  const ByteRange range_;
  std::uint64_t offset_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // what is not used up of the buffer
  std::size_t end_ = 0;
  std::string wrong_;
  bool is_over_ = false;
};

}  // namespace afo
