// The bytes of a local file, or of a part of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "afo/core/byte_source.h"

namespace afo {

class PlainFile : public ByteSource {
 public:
  explicit PlainFile(const std::string& path, const ByteRange& range = {});
  ~PlainFile() override;
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  [[nodiscard]] std::optional<std::size_t> Read(char* to, std::size_t most) override;

  // Where the next bytes lie.
  std::uint64_t offset() const { return offset_; }

 private:
  int file_;
  int error_;  // of opening, 0: none
  std::uint64_t offset_;
  const std::uint64_t end_;
};

}  // namespace afo
