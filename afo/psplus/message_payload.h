// A message (afo/core/message.h) on its way, sent from where its parts lie.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "afo/core/message.h"
#include "afo/psplus/buffer.h"

namespace afo::psplus {

// Header and parts, each filled up by zeros. `head` is where the header is written to; it, and what the parts are in,
// belong to `owner`.
inline Payload PayloadOf(MessageKind kind, std::span<const MessagePart> parts, std::string* head,
                         std::shared_ptr<const void> owner) {
  static constexpr char kZeros[kMessageAlignment] = {};
  *head = MessageHead(kind, parts);
  Payload payload;
  payload.pieces.push_back({head->data(), head->size()});
  for (const MessagePart& part : parts) {
    if (part.bytes > 0) payload.pieces.push_back({part.data, part.bytes});
    if (const std::size_t padding = Padding(part.bytes); padding > 0) payload.pieces.push_back({kZeros, padding});
  }
  payload.owner = std::move(owner);
  return payload;
}

}  // namespace afo::psplus
