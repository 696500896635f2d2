#include "afo/core/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#ifndef MADV_POPULATE_WRITE  // Linux 5.14; older kernels refuse it, and pages come one by one.
#define MADV_POPULATE_WRITE 23
#endif

namespace afo {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2u << 20;
// Smaller mappings would hold a whole huge page for a few rows.
constexpr std::size_t kHugeFrom = 4u << 20;

std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A place for `bytes` that begins at a huge page, for a mapping keeps its huge pages only where it lies so.
std::uint8_t* Reserve(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugeFrom ? kHugePage : kPage;
  const std::size_t all = bytes + alignment - kPage;
  void* raw = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::uint8_t*>(raw);
  auto* aligned = reinterpret_cast<std::uint8_t*>(RoundUp(reinterpret_cast<std::size_t>(first), alignment));
  if (aligned > first) munmap(first, aligned - first);
  const std::size_t left = first + all - (aligned + bytes);
  if (left > 0) munmap(aligned + bytes, left);
  return aligned;
}

}  // namespace

Pages::Pages(Pages&& other) noexcept { *this = std::move(other); }

Pages& Pages::operator=(Pages&& other) noexcept {
  if (this == &other) return *this;
  Release();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  populated_ = std::exchange(other.populated_, 0);
  return *this;
}

Pages::~Pages() { Release(); }

void Pages::Release() {
  if (data_ != nullptr) munmap(data_, size_);
}

bool Pages::Grow(std::size_t bytes) {
  bytes = RoundUp(bytes, kPage);
  if (bytes <= size_) return true;
  if (bytes >= kHugeFrom) bytes = RoundUp(bytes, kHugePage);
  std::uint8_t* place = Reserve(bytes);
  if (place == nullptr) return false;
  if (!MoveTo(place, bytes)) {
    munmap(place, bytes);
    return false;
  }
  data_ = place;
  size_ = bytes;
  if (size_ >= kHugeFrom) madvise(data_, size_, MADV_HUGEPAGE);
  return true;
}

bool Pages::MoveTo(std::uint8_t* place, std::size_t bytes) {
  if (size_ >= kHugeFrom) return mremap(data_, size_, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED;
  // Small ones are copied. Pages that were moved remember where they came from, so their mapping never becomes one with
  // its neighbours; the kernel allows 65,530 mappings a process, and thousands of tables would have more.
  if (mprotect(place, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  if (data_ != nullptr) std::memcpy(place, data_, size_);
  Release();
  return true;
}

void Pages::Populate(std::size_t bytes) {
  bytes = std::min(RoundUp(bytes, kPage), size_);
  if (bytes <= populated_) return;
  madvise(data_ + populated_, bytes - populated_, MADV_POPULATE_WRITE);
  populated_ = bytes;
}

}  // namespace afo
