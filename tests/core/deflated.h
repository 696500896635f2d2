// Compressed bytes, for tests and fuzzers of what unpacks them.
#pragma once

#include <zlib.h>

#include <string>

#include "tests/core/memory_file.h"

namespace afo::testing {

// A compressed stream of these bytes, as gzip or zlib has it.
inline std::string Deflated(const std::string& bytes, bool is_gzip) {
  z_stream stream = {};
  Require(deflateInit2(&stream, 6, Z_DEFLATED, is_gzip ? 16 + MAX_WBITS : MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  Require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace afo::testing
