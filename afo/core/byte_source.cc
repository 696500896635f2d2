#include "byte_source.h"

#include "inflated_file.h"
#include "plain_file.h"

namespace afo {

std::unique_ptr<ByteSource> OpenBytes(const std::string& path, Compression compression) {
  auto file = std::make_unique<PlainFile>(path);
  if (compression == Compression::kNone) return file;
  return std::make_unique<InflatedFile>(std::move(file), compression);
}

}  // namespace afo
