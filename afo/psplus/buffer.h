// Bytes on their way: one block that was received, and a list of pieces to be sent.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace afo::psplus {

// A block of a fixed size that begins at a multiple of 64 bytes, so that a message is used where it lies.
class Buffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  // Bytes of no particular value; nothing where the system has no more memory.
  static std::shared_ptr<Buffer> Of(std::size_t size);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  char* data() { return data_; }
  const char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  Buffer(char* data, std::size_t size) : data_(data), size_(size) {}

  char* data_;
  std::size_t size_;
};

// Somebody else's bytes.
struct Piece {
  const char* data = nullptr;
  std::size_t size = 0;
};

// What a frame carries, sent as if it were joined. `owner` keeps the pieces alive and unchanged: it is held until they
// are sent, and with a question or a remembered answer until they need not be sent again.
struct Payload {
  std::vector<Piece> pieces;
  std::shared_ptr<const void> owner;

  static Payload Of(std::shared_ptr<const Buffer> buffer);
  std::size_t bytes() const;
};

}  // namespace afo::psplus
