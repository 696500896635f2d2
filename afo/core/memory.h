// Memory that grows without copying once it is large: an anonymous mapping whose pages move, not their bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace afo {

// Pages are zero when new. `Grow` may move them: whoever holds a pointer asks again. Not thread-safe.
class Pages {
 public:
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  // Makes room for at least `bytes`; false when the system has no more. What was there stays.
  [[nodiscard]] bool Grow(std::size_t bytes);
  // Asks the kernel for the pages of [0, bytes) at once: a fault each costs more than the work on them.
  void Populate(std::size_t bytes);

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Bytes that the kernel was asked for so far; those beyond cost address space alone.
  std::size_t populated() const { return populated_; }

 private:
  void Release();
  // What is held goes to a place of `bytes`, more than there are; false when the system has no more.
  [[nodiscard]] bool MoveTo(std::uint8_t* place, std::size_t bytes);

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t populated_ = 0;
};

}  // namespace afo
