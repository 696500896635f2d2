// The name of a feature that has been seen, ready to be compared: that is done for each feature of each record.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace afo {

class KnownFeature {
 public:
  // Refers to the name. `column`: -1 for a feature that nobody reads.
  KnownFeature(const std::string& name, int column)
      : name_(name.data()), size_(static_cast<std::uint32_t>(name.size())), column_(column) {
    std::memcpy(words_, name_, std::min(name.size(), kRead));
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t bytes = std::min<std::size_t>(name.size() - std::min(name.size(), 8 * i), 8);
      bits_[i] = static_cast<std::uint8_t>(8 * bytes);
    }
  }

  int column() const { return column_; }
  std::size_t size() const { return size_; }
  bool Is(std::string_view other) const { return other == std::string_view(name_, size_); }

  // The length of the entry at the start of `left` bytes, if it is this feature's and of the form that nearly every
  // encoder gives a short one: no length above 127, a name and then a value. 0 for another; what the value holds is not
  // looked at.
  //   entry, key, name, value: 0a L 0a N <name> 12 V <value>
  std::size_t EntryAt(const char* bytes, std::size_t left) const {
    const auto* at = reinterpret_cast<const unsigned char*>(bytes);
    if (left < 4 + kRead || at[0] != 0x0a || at[2] != 0x0a || at[3] != size_) return 0;
    const std::size_t entry = at[1];
    if (entry >= 128 || entry + 2 > left || size_ + kAround > entry) return 0;
    std::uint64_t found[2];
    std::memcpy(found, bytes + 4, sizeof(found));
    if (_bzhi_u64(found[0], bits_[0]) != words_[0] || _bzhi_u64(found[1], bits_[1]) != words_[1]) return 0;
    // Nothing behind the value: a second name would count.
    if (at[4 + size_] != 0x12 || at[5 + size_] != entry - size_ - 4) return 0;
    const bool is_long = size_ > kRead;
    if (is_long && std::memcmp(bytes + 4 + kRead, name_ + kRead, size_ - kRead) != 0) return 0;
    return entry + 2;
  }

  // Bytes of a usual entry with values, but for name and values, behind its own tag and length.
  static constexpr std::size_t kAround = 8;

 private:
  // Bytes of a name that are compared at once.
  static constexpr std::size_t kRead = 16;

  std::uint64_t words_[2] = {0, 0};  // the name's first bytes
  const char* name_;
  std::uint32_t size_;
  std::uint8_t bits_[2];  // of each word that are the name's
  int column_;
};

}  // namespace afo
