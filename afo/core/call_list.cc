#include "afo/core/call_list.h"

#include <cstdint>
#include <cstring>

namespace afo {
namespace {

constexpr std::uint32_t kNumberBits = 30;

// Reads numbers from bytes; what is beyond them is zero, and `cut_off` then.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool cut_off() const { return cut_off_; }
  bool at_end() const { return bytes_.empty(); }

  template <typename T>
  T Number() {
    T number{};
    if (const std::string_view from = Bytes(sizeof(T)); from.size() == sizeof(T)) {
      std::memcpy(&number, from.data(), sizeof(T));
    }
    return number;
  }

  template <typename T>
  std::vector<T> Numbers(std::size_t count) {
    // Before there is memory for them.
    const std::string_view from = count > bytes_.size() / sizeof(T) ? Bytes(SIZE_MAX) : Bytes(count * sizeof(T));
    std::vector<T> numbers(from.size() / sizeof(T));
    if (!numbers.empty()) std::memcpy(numbers.data(), from.data(), numbers.size() * sizeof(T));
    return numbers;
  }

  std::string_view Bytes(std::size_t size) {
    if (size > bytes_.size()) {
      cut_off_ = true;
      bytes_ = {};
      return {};
    }
    const std::string_view found = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return found;
  }

 private:
  std::string_view bytes_;
  bool cut_off_ = false;
};

ListedCall ReadCall(Reader* reader) {
  ListedCall listed;
  listed.call.function = static_cast<Function>(reader->Number<std::uint16_t>());
  const auto arguments = reader->Number<std::uint16_t>();
  const auto ints = reader->Number<std::uint32_t>(), floats = reader->Number<std::uint32_t>(),
             texts = reader->Number<std::uint32_t>();
  for (const std::uint32_t bits : reader->Numbers<std::uint32_t>(arguments)) {
    listed.arguments.push_back(
        {static_cast<Whose>(bits >> kNumberBits), bits & ((std::uint32_t{1} << kNumberBits) - 1)});
  }
  listed.call.ints = reader->Numbers<std::int64_t>(ints);
  listed.call.floats = reader->Numbers<float>(floats);
  for (std::uint32_t i = 0; i < texts && !reader->cut_off(); ++i) {
    listed.call.texts.emplace_back(reader->Bytes(reader->Number<std::uint32_t>()));
  }
  return listed;
}

}  // namespace

CallList ParseCallList(std::string_view bytes) {
  CallList list;
  Reader reader(bytes);
  const auto calls = reader.Number<std::uint32_t>();
  if (calls > kMostCalls) return {{}, {}, "has more calls than there are"};
  for (std::uint32_t i = 0; i < calls && !reader.cut_off(); ++i) list.calls.push_back(ReadCall(&reader));
  const auto sent = reader.Number<std::uint32_t>();
  if (sent > kMostParts) return {{}, {}, "sends more results than a message carries"};
  const std::vector<std::uint32_t> pairs = reader.Numbers<std::uint32_t>(std::size_t{2} * sent);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i + 1] > UINT8_MAX) return {{}, {}, "sends a result as a type that there is not"};
    list.sent.push_back({pairs[i], static_cast<PartType>(pairs[i + 1])});
  }
  if (reader.cut_off()) return {{}, {}, "is cut off"};
  if (!reader.at_end()) return {{}, {}, "is longer than its calls"};
  return list;
}

}  // namespace afo
