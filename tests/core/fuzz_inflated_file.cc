// Bytes as somebody may hand them to the reader of compressed files; what is wrong ends the program. fuzz.sh has libFuzzer
// look for such bytes, the unit tests (inflated_file_test.cc) change what was written.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "afo/core/byte_source.h"
#include "tests/core/deflated.h"

namespace afo::testing {
namespace {

enum class End { kWhole, kCutOff, kDamaged };

// What zlib makes of all bytes at once, and how that ends: the reader, which has them piece by piece, must agree.
End AtOnce(const std::string& bytes, bool is_gzip, std::string* unpacked) {
  z_stream stream = {};
  Require(inflateInit2(&stream, is_gzip ? 16 + MAX_WBITS : MAX_WBITS) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string piece(1 << 16, '\0');
  int code = Z_STREAM_END;
  do {
    if (code == Z_STREAM_END && stream.avail_in == 0) break;
    if (code == Z_STREAM_END) Require(inflateReset(&stream) == Z_OK);
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    code = inflate(&stream, Z_NO_FLUSH);
    unpacked->append(piece, 0, piece.size() - stream.avail_out);
  } while (code == Z_OK || code == Z_STREAM_END);
  inflateEnd(&stream);
  return code == Z_STREAM_END ? End::kWhole : code == Z_BUF_ERROR ? End::kCutOff : End::kDamaged;
}

}  // namespace

// The first byte: gzip or zlib, whether what follows is to be compressed first, and how much is asked for at once.
void ReadAsCompressed(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const bool is_gzip = data[0] & 1;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 2) bytes = Deflated(bytes.substr(0, bytes.size() / 2), is_gzip) + bytes.substr(bytes.size() / 2);
  const std::size_t most = std::size_t{5} << (data[0] >> 4);
  std::string expected, found, piece(most, '\0');
  const End end = AtOnce(bytes, is_gzip, &expected);
  const MemoryFile memory(bytes);
  const auto source = OpenBytes(memory.path(), is_gzip ? Compression::kGzip : Compression::kZlib);
  std::optional<std::size_t> got = 1;
  while (got.value_or(0) > 0) {
    got = source->Read(piece.data(), most);
    Require(got.value_or(0) <= most);
    found.append(piece, 0, got.value_or(0));
  }
  Require(found == expected);
  Require((end == End::kWhole) == (got == 0u && source->wrong().empty()));
  Require((end == End::kCutOff) == (source->wrong().find("cut off") != std::string::npos));
  Require((end == End::kDamaged) == (source->wrong().find("damaged") != std::string::npos));
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::ReadAsCompressed(data, size);
  return 0;
}
#endif
