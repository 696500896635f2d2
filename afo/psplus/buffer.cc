#include "afo/psplus/buffer.h"

#include <new>
#include <utility>

namespace afo::psplus {

std::shared_ptr<Buffer> Buffer::Of(std::size_t size) {
  auto* data = static_cast<char*>(::operator new(size, std::align_val_t(kAlignment), std::nothrow));
  if (data == nullptr) return nullptr;
  return std::shared_ptr<Buffer>(new Buffer(data, size));
}

Buffer::~Buffer() { ::operator delete(data_, std::align_val_t(kAlignment)); }

Payload Payload::Of(std::shared_ptr<const Buffer> buffer) {
  Payload payload;
  payload.pieces.push_back({buffer->data(), buffer->size()});
  payload.owner = std::move(buffer);
  return payload;
}

std::size_t Payload::bytes() const {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.size;
  return bytes;
}

}  // namespace afo::psplus
