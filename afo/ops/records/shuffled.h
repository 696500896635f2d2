// Records of a TFRecord file, or of a part of it, in an order that is fixed by a seed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "afo/core/record_file.h"
#include "tensorflow/core/platform/tstring.h"

namespace afo {

struct RecordOptions {
  Compression compression = Compression::kNone;
  ByteRange range;
  std::int64_t seed = 0;
  std::int64_t buffer = 1;  // records among which each waits until it is drawn; 1 keeps the file's order
  std::int64_t skip = 0;    // records of this order that are not given
  bool tolerant = false;    // damaged data are left out
};

struct RecordBlock {
  std::vector<tensorflow::tstring> records;
  std::vector<std::string> damaged;  // what is wrong with those left out meanwhile
  std::string lost;                  // why the file cannot be read any further, '' while it can
};

// Draws from a buffer that the file refills: with the same seed the same records in the same order, damaged ones or not.
class ShuffledRecords {
 public:
  ShuffledRecords(const std::string& path, const RecordOptions& options)
      : file_(path, options.compression, options.range),
        random_(static_cast<std::uint64_t>(options.seed)),
        buffer_(options.buffer),
        skip_(options.skip),
        tolerant_(options.tolerant) {}

  // Up to `count` records, fewer at the end alone, or once it is to `stop`.
  RecordBlock Next(std::int64_t count, const std::atomic<bool>& stop);

 private:
  tensorflow::tstring Draw();
  // Reads on by a record. What is wrong with one that is left out.
  std::optional<std::string> Read();

  RecordFile file_;
  std::mt19937_64 random_;  // the same numbers on every machine
  const std::int64_t buffer_;
  std::int64_t skip_;
  const bool tolerant_;
  bool is_read_ = false;
  std::string lost_;
  std::vector<tensorflow::tstring> waiting_;
};

}  // namespace afo
