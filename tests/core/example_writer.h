// tf.Example messages for tests, in any form that the wire allows.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace afo::testing {

inline std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<char>(value | 128));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// A field of bytes.
inline std::string Sized(std::uint32_t field, const std::string& body) {
  return Varint(field << 3 | 2) + Varint(body.size()) + body;
}

inline std::string IntList(const std::vector<std::int64_t>& values, bool packed = true) {
  std::string body;
  for (const std::int64_t value : values) body += (packed ? "" : "\x08") + Varint(static_cast<std::uint64_t>(value));
  return Sized(3, packed ? Sized(1, body) : body);
}

inline std::string FloatList(const std::vector<float>& values, bool packed = true) {
  std::string body;
  for (const float value : values) {
    char bytes[4];
    std::memcpy(bytes, &value, 4);
    body += (packed ? "" : "\x0d") + std::string(bytes, 4);
  }
  return Sized(2, packed ? Sized(1, body) : body);
}

inline std::string BytesList(const std::vector<std::string>& values) {
  std::string body;
  for (const std::string& value : values) body += Sized(1, value);
  return Sized(1, body);
}

// `feature`: one of the lists above, or nothing.
inline std::string Entry(const std::string& name, const std::string& feature) {
  return Sized(1, Sized(1, name) + Sized(2, feature));
}

inline std::string Record(const std::string& entries) { return Sized(1, entries); }

}  // namespace afo::testing
