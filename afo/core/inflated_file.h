// The bytes that a gzip or zlib file unpacks to; several compressed streams may follow one another in it.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afo/core/plain_file.h"

namespace afo {

// Never unpacks more than is asked for, whatever the compressed bytes claim.
class InflatedFile : public ByteSource {
 public:
  InflatedFile(std::unique_ptr<PlainFile> file, Compression compression);
  ~InflatedFile() override;
  InflatedFile(const InflatedFile&) = delete;  // zlib refers to the stream
  InflatedFile& operator=(const InflatedFile&) = delete;

  // What was unpacked before a damaged place is given before that is told.
  [[nodiscard]] std::optional<std::size_t> Read(char* to, std::size_t most) override;

 private:
  [[nodiscard]] bool Refill();
  [[nodiscard]] bool Inflate();
  std::nullopt_t Damaged(const char* words);

  std::unique_ptr<PlainFile> file_;
  const std::string name_;  // of the format
  std::vector<char> packed_;
  z_stream stream_ = {};
  bool is_ready_;
  bool is_within_ = false;  // a compressed stream, neither before the first nor between two
  bool may_hold_ = false;   // bytes that zlib could give without more input, or the error that comes behind them
};

}  // namespace afo
