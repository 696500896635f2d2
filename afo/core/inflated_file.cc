#include "afo/core/inflated_file.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace afo {
namespace {

constexpr std::size_t kBlock = 1 << 16;
// zlib counts what it gives in 32 bits.
constexpr std::size_t kMost = 1 << 30;
// zlib's argument: the window's bits, and 16 for gzip.
int WindowOf(Compression compression) { return compression == Compression::kGzip ? 16 + MAX_WBITS : MAX_WBITS; }

}  // namespace

InflatedFile::InflatedFile(std::unique_ptr<PlainFile> file, Compression compression)
    : file_(std::move(file)),
      name_(compression == Compression::kGzip ? "gzip" : "zlib"),
      packed_(kBlock),
      is_ready_(inflateInit2(&stream_, WindowOf(compression)) == Z_OK) {}

InflatedFile::~InflatedFile() {
  if (is_ready_) inflateEnd(&stream_);
}

std::optional<std::size_t> InflatedFile::Read(char* to, std::size_t most) {
  assert(most >= 1);
  if (!is_ready_) return Wrong("cannot be unpacked: no memory for it");
  const auto size = static_cast<uInt>(std::min(most, kMost));
  stream_.next_out = reinterpret_cast<Bytef*>(to);
  stream_.avail_out = size;
  while (stream_.avail_out == size) {
    if (stream_.avail_in == 0 && !may_hold_) {
      if (!Refill()) return Wrong(file_->wrong());
      if (stream_.avail_in == 0 && !is_within_) return 0;
      if (stream_.avail_in == 0) {
        return Wrong(name_ + " data is cut off at byte " + std::to_string(file_->offset()) +
                     " of the file; copy or write it again");
      }
    }
    if (!Inflate() && stream_.avail_out == size) return Damaged(stream_.msg);
  }
  return size - stream_.avail_out;
}

// False where the file cannot be read.
bool InflatedFile::Refill() {
  const std::optional<std::size_t> got = file_->Read(packed_.data(), packed_.size());
  if (!got.has_value()) return false;
  stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
  stream_.avail_in = static_cast<uInt>(*got);
  return true;
}

// False where the bytes are damaged, again at each further call.
bool InflatedFile::Inflate() {
  if (!is_within_ && inflateReset(&stream_) != Z_OK) return false;
  is_within_ = true;
  const int code = inflate(&stream_, Z_NO_FLUSH);
  const bool is_sound = code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR;
  is_within_ = code != Z_STREAM_END;
  may_hold_ = is_within_ && (stream_.avail_out == 0 || !is_sound);
  return is_sound;
}

std::nullopt_t InflatedFile::Damaged(const char* words) {
  return Wrong(name_ + " data is damaged near byte " + std::to_string(file_->offset() - stream_.avail_in) +
               " of the file: " + (words == nullptr ? "zlib does not take it" : words));
}

}  // namespace afo
