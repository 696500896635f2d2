#include "afo/core/byte_source.h"

#include "afo/core/inflated_file.h"
#include "afo/core/plain_file.h"

namespace afo {

std::unique_ptr<ByteSource> OpenBytes(const std::string& path, Compression compression, const ByteRange& range) {
  if (compression == Compression::kNone) return std::make_unique<PlainFile>(path, range);
  return std::make_unique<InflatedFile>(std::make_unique<PlainFile>(path), compression);
}

}  // namespace afo
