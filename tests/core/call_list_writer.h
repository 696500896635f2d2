// Messages of calls, as a client writes them (afo/psplus/store_service.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "afo/core/call_list.h"
#include "afo/core/message.h"
#include "afo/psplus/buffer.h"
#include "tests/core/call_support.h"

namespace afo::testing {

template <typename T>
void Append(std::string* to, T number) {
  to->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

inline std::string Written(const CallList& list) {
  std::string bytes;
  Append(&bytes, static_cast<std::uint32_t>(list.calls.size()));
  for (const auto& [call, arguments] : list.calls) {
    Append(&bytes, static_cast<std::uint16_t>(call.function));
    Append(&bytes, static_cast<std::uint16_t>(arguments.size()));
    for (const std::size_t count : {call.ints.size(), call.floats.size(), call.texts.size()}) {
      Append(&bytes, static_cast<std::uint32_t>(count));
    }
    for (const Place& place : arguments) {
      Append(&bytes, static_cast<std::uint32_t>(place.whose) << 30 | place.number);
    }
    for (const std::int64_t number : call.ints) Append(&bytes, number);
    for (const float number : call.floats) Append(&bytes, number);
    for (const std::string& text : call.texts) {
      Append(&bytes, static_cast<std::uint32_t>(text.size()));
      bytes += text;
    }
  }
  Append(&bytes, static_cast<std::uint32_t>(list.sent.size()));
  for (const Sent& sent : list.sent) {
    Append(&bytes, sent.result);
    Append(&bytes, static_cast<std::uint32_t>(sent.type));
  }
  return bytes;
}

// Parts number 0 and on of a message.
inline std::vector<Place> PartPlaces(std::size_t count, std::size_t first = 0) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < count; ++i) places.push_back({Whose::kPart, static_cast<std::uint32_t>(first + i)});
  return places;
}

inline std::shared_ptr<psplus::Buffer> BufferOf(const std::string& bytes) {
  std::shared_ptr<psplus::Buffer> buffer = psplus::Buffer::Of(bytes.size());
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return buffer;
}

// Of any parts, which a carrier guards.
inline std::string MessageOf(MessageKind kind, const std::vector<MessagePart>& parts) {
  std::string bytes = MessageHead(kind, parts);
  for (const MessagePart& part : parts) {
    if (part.bytes > 0) bytes.append(part.data, part.bytes);
    bytes.append(Padding(part.bytes), '\0');
  }
  return bytes;
}

inline std::string MessageOf(MessageKind kind, const std::string& list, std::int64_t earlier,
                             const Arguments& arguments) {
  std::vector<MessagePart> parts = arguments.parts();
  const MessagePart own[] = {{PartType::kUint8, {static_cast<std::int64_t>(list.size())}, list.data(), list.size()},
                             {PartType::kInt64, {}, reinterpret_cast<const char*>(&earlier), sizeof(earlier)}};
  parts.insert(parts.begin(), std::begin(own), std::end(own));
  return MessageOf(kind, parts);
}

}  // namespace afo::testing
