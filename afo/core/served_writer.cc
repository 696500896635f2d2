#include "afo/core/served_writer.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "afo/core/hash.h"
#include "afo/core/snapshot.h"

namespace afo {
namespace {

// What is read at a time, or one row where that is more.
constexpr std::size_t kPieceBytes = 1u << 20;

class Sealer {
 public:
  Sealer(OpenFile file, const Sealing& sealing)
      : file_(file), sealing_(sealing), layout_(LayoutOf(sealing)), sums_(layout_.rows_at()) {
    if (!sealing.has_index) return;
    const auto lines = static_cast<std::uint32_t>(layout_.lines);
    index_.emplace(file, layout_.index_at(), layout_.shape(), lines, sealing.window);
  }

  Sealed Run() {
    if (Sealed done = ReadRows(); Failed(done)) return done;
    if (Sealed done{.error = WriteIndex(), .wrong = ""}; Failed(done)) return done;
    return {.error = WriteSumsAndHeader(), .wrong = ""};
  }

 private:
  static ServedLayout LayoutOf(const Sealing& sealing) {
    ServedLayout layout{.header = sealing.header,
                        .removed = sealing.removed,
                        .parent = sealing.parent,
                        .parent_path = sealing.parent_path};
    if (sealing.has_index) layout.lines = layout.shape().LinesFor(sealing.header.count + sealing.removed);
    return layout;
  }

  static bool Failed(const Sealed& done) { return done.error != 0 || !done.wrong.empty(); }

  Sealed ReadRows() {
    const std::size_t stride = layout_.header.stride();
    const std::uint64_t rows = layout_.header.count, removed = layout_.removed;
    std::uint32_t found = 0;
    if (Sealed done = ReadKeys(layout_.rows_at(), rows, stride, 0, &found); Failed(done)) return done;
    if (Sealed done = ReadKeys(layout_.rows_end(), removed, sizeof(std::int64_t), rows, &found); Failed(done)) {
      return done;
    }
    if (found != sealing_.rows_checksum) return {.error = 0, .wrong = "its rows are not those that were written"};
    return {};
  }

  // `all` keys with what is behind each, from byte `at` on, which get numbers from `number` on in the index.
  Sealed ReadKeys(std::uint64_t at, std::uint64_t all, std::size_t stride, std::uint64_t number, std::uint32_t* found) {
    const std::uint64_t most = std::max<std::size_t>(1, kPieceBytes / stride);
    std::vector<char> bytes(static_cast<std::size_t>(std::min(most, all)) * stride);
    for (std::uint64_t first = 0; first < all; first += most) {
      const auto count = static_cast<std::size_t>(std::min(most, all - first));
      const int error = file_.Read(at + first * stride, bytes.data(), count * stride);
      if (error != 0) return {.error = error, .wrong = ""};
      *found = Crc32c(bytes.data(), count * stride, *found);
      sums_.Add(bytes.data(), count * stride);
      for (std::size_t i = 0; i < count; ++i) {
        const bool is_first = first + i == 0;
        Sealed done = AddKey(bytes.data() + i * stride, static_cast<std::uint32_t>(number + first + i), is_first);
        if (Failed(done)) return done;
      }
    }
    return {};
  }

  Sealed AddKey(const char* bytes, std::uint32_t number, bool is_first) {
    std::int64_t key;
    std::memcpy(&key, bytes, sizeof(key));
    if (!is_first && key <= last_) return {.error = 0, .wrong = "its keys do not rise"};
    last_ = key;
    return {.error = index_ ? index_->Put(HashOf(key), number) : 0, .wrong = ""};
  }

  int WriteIndex() {
    if (index_) {
      if (const int error = index_->Finish(); error != 0) return error;
    }
    // The zeros behind the keys, where no line is.
    if (const int error = file_.Cut(layout_.sums_at()); error != 0) return error;
    const std::uint64_t keys_end = layout_.rows_end() + layout_.removed * sizeof(std::int64_t);
    std::vector<char> bytes(kPieceBytes);
    for (std::uint64_t at = keys_end; at < layout_.sums_at(); at += kPieceBytes) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, layout_.sums_at() - at));
      if (const int error = file_.Read(at, bytes.data(), size); error != 0) return error;
      sums_.Add(bytes.data(), size);
    }
    sums_.Finish();
    return 0;
  }

  int WriteSumsAndHeader() {
    const std::size_t size = sums_.sums().size() * sizeof(std::uint32_t);
    const auto* sums = reinterpret_cast<const char*>(sums_.sums().data());
    layout_.sums_checksum = Crc32c(sums, size);
    if (const int error = file_.Write(layout_.sums_at(), sums, size); error != 0) return error;
    const std::string header = EncodeHeader(&layout_);
    return file_.Write(0, header.data(), header.size());
  }

  const OpenFile file_;
  const Sealing sealing_;
  ServedLayout layout_;
  BlockSums sums_;
  std::optional<IndexWriter> index_;
  std::int64_t last_ = 0;
};

}  // namespace

Sealed Seal(OpenFile file, const Sealing& sealing) { return Sealer(file, sealing).Run(); }

}  // namespace afo
