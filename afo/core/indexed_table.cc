#include "afo/core/indexed_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "afo/core/hash.h"
#include "afo/core/index.h"
#include "afo/core/snapshot.h"

namespace afo {
namespace {

// Keys whose memory is asked for at a time.
constexpr std::int64_t kBatch = 32;
// What is copied or checked at a time: a huge page.
constexpr std::size_t kPieceBlocks = (2u << 20) / kBlockBytes;
constexpr std::size_t kBits = 64;
constexpr std::size_t kNoBlock = ~std::size_t{0};
// In place of one that is damaged.
constexpr PackedLine kEmpty{};
// In place of the row of a removed key.
constexpr std::uint8_t kRemovedByte = 0;
constexpr const std::uint8_t* kRemoved = &kRemovedByte;

}  // namespace

// What one lookup reads. Any bytes are safe: a line and a row are checked, and lie within the file, or count as not
// there.
class IndexedTable::View {
 public:
  View(const IndexedTable& table, const std::uint8_t* data)
      : table_(table),
        shape_(table.shape_),
        count_(table.layout_.header.count),
        numbers_(count_ + table.layout_.removed),
        stride_(table.stride_),
        data_(data),
        rows_(data + table.rows_at_),
        lines_(reinterpret_cast<const PackedLine*>(data + table.lines_at_)) {}

  const PackedLine* unchecked(std::uint32_t at) const { return lines_ + at; }
  template <bool kWhole>
  const PackedLine& line(std::uint32_t at) {
    const std::size_t place = table_.lines_at_ + std::size_t{at} * sizeof(PackedLine);
    return kWhole || Check(place, sizeof(PackedLine)) ? lines_[at] : kEmpty;
  }
  // The row of this number if it is the key's, kRemoved if it is a removed key's; else nullptr.
  template <bool kWhole>
  const std::uint8_t* entry(std::uint32_t number, std::int64_t key) {
    if (number >= numbers_) return nullptr;
    const bool is_row = number < count_;
    const std::size_t size = is_row ? stride_ : sizeof(key);
    const std::uint8_t* at = rows_ + (is_row ? number * size : count_ * stride_ + (number - count_) * size);
    if (!kWhole && !Check(static_cast<std::size_t>(at - data_), size)) return nullptr;
    if (std::memcmp(at, &key, sizeof(key)) != 0) return nullptr;
    return is_row ? at : kRemoved;
  }
  // The same, not checked and to be fetched alone.
  const std::uint8_t* guess(std::uint32_t number) const { return number < count_ ? rows_ + number * stride_ : nullptr; }
  const PackedShape& shape() const { return shape_; }
  // The first damaged block, or kNoBlock.
  std::size_t damaged() const { return damaged_; }

 private:
  bool Check(std::size_t at, std::size_t size) {
    const std::size_t last = (at + size - 1) / kBlockBytes - table_.first_page_;
    for (std::size_t block = at / kBlockBytes - table_.first_page_; block <= last; ++block) {
      if (table_.IsGood(data_, block)) continue;
      damaged_ = std::min(damaged_, block);
      return false;
    }
    return true;
  }

  const IndexedTable& table_;
  // Of the table: copies, which what is written meanwhile cannot change for all that the compiler knows.
  const PackedShape shape_;
  const std::uint64_t count_, numbers_;
  const std::size_t stride_;
  const std::uint8_t *data_, *rows_;
  const PackedLine* lines_;
  std::size_t damaged_ = kNoBlock;
};

IndexedTable::IndexedTable(const ServedLayout& layout, std::string name)
    : layout_(layout),
      name_(std::move(name)),
      stride_(layout.header.stride()),
      shape_(layout.shape()),
      rows_at_(static_cast<std::size_t>(layout.rows_at())),
      lines_at_(static_cast<std::size_t>(layout.index_at())),
      sums_at_(static_cast<std::size_t>(layout.sums_at())),
      first_page_(layout.first_page()),
      sums_(layout.blocks()),
      checked_(new std::atomic<std::uint64_t>[layout.blocks() / kBits + 1]()) {}

std::string IndexedTable::ReadSums(const ReadAt& read) {
  if (layout_.lines == 0) return "it has no index, so that it can only be read in its file";
  auto* bytes = reinterpret_cast<char*>(sums_.data());
  const std::size_t size = sums_.size() * sizeof(std::uint32_t);
  if (std::string wrong = read(layout_.sums_at(), bytes, size); !wrong.empty()) return wrong;
  return Crc32c(bytes, size) == layout_.sums_checksum ? "" : "its checksums are damaged";
}

IndexedTable::Block IndexedTable::block(std::size_t number) const {
  const std::size_t page = (first_page_ + number) * kBlockBytes;
  return {.begin = std::max(page, rows_at_), .end = std::min(page + kBlockBytes, sums_at_)};
}

bool IndexedTable::HasSum(const std::uint8_t* data, std::size_t number) const {
  const auto [begin, end] = block(number);
  return Crc32c(reinterpret_cast<const char*>(data + begin), end - begin) == sums_[number];
}

bool IndexedTable::IsGood(const std::uint8_t* data, std::size_t number) const {
  std::atomic<std::uint64_t>& word = checked_[number / kBits];
  const std::uint64_t bit = std::uint64_t{1} << number % kBits;
  // Relaxed: what was checked is there for everyone, and does not change.
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return true;
  if (!HasSum(data, number)) return false;
  word.fetch_or(bit, std::memory_order_relaxed);
  return true;
}

std::string IndexedTable::Damaged(std::size_t number) const {
  const auto [begin, end] = block(number);
  return "it is damaged in bytes " + std::to_string(begin) + " to " + std::to_string(end - 1);
}

std::string IndexedTable::Copy(const ReadAt& read, const std::function<bool()>& is_over) {
  Pages pages;
  const std::size_t blocks = sums_.size();
  if (!pages.Grow(sums_at_)) return "no memory is left for it";
  for (std::size_t first = 0; first < blocks; first += kPieceBlocks) {
    if (is_over()) return "";
    const std::size_t last = std::min(first + kPieceBlocks, blocks);
    const std::size_t begin = block(first).begin, end = block(last - 1).end;
    const std::string wrong = read(begin, reinterpret_cast<char*>(pages.data() + begin), end - begin);
    if (!wrong.empty()) return wrong;
    for (std::size_t number = first; number < last; ++number) {
      if (!HasSum(pages.data(), number)) return Damaged(number);
    }
  }
  pages_ = std::move(pages);
  populated_.store(pages_.size(), std::memory_order_relaxed);
  data_.store(pages_.data(), std::memory_order_release);
  is_whole_.store(true, std::memory_order_release);
  return "";
}

std::string IndexedTable::CheckAll(const std::function<void(std::size_t, std::size_t)>& prepare,
                                   const std::function<bool()>& is_over) {
  const std::uint8_t* data = data_.load(std::memory_order_acquire);
  for (std::size_t first = 0; first < sums_.size(); first += kPieceBlocks) {
    if (is_over()) return "";
    const std::size_t last = std::min(first + kPieceBlocks, sums_.size());
    prepare(block(first).begin, block(last - 1).end);
    for (std::size_t block = first; block < last; ++block) {
      if (!IsGood(data, block)) return Damaged(block);
    }
  }
  is_whole_.store(true, std::memory_order_release);
  return "";
}

template <typename KeyOf, typename Take>
std::string IndexedTable::Find(std::int64_t count, const KeyOf& key_of, const Take& take) const {
  // In this order: a table that is whole has its bytes where they stay.
  const bool is_whole = is_whole_.load(std::memory_order_acquire);
  const std::uint8_t* data = data_.load(std::memory_order_acquire);
  return is_whole ? FindIn<true>(data, count, key_of, take) : FindIn<false>(data, count, key_of, take);
}

std::string IndexedTable::Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const {
  const std::int64_t dim = layout_.header.dim;
  return Find(
      count, [keys](std::int64_t i) { return keys[i]; },
      [&](std::int64_t i, const std::uint8_t* row) {
        DecodeRow(layout_.header, row == kRemoved ? nullptr : row, weights + i * dim);
      });
}

std::string IndexedTable::Answer(std::vector<AskedKey>* asked, float absent, float* weights) const {
  const std::int64_t dim = layout_.header.dim;
  AskedKey* const keys = asked->data();
  std::size_t left = 0;
  std::string wrong = Find(
      static_cast<std::int64_t>(asked->size()), [keys](std::int64_t i) { return keys[i].key; },
      [&](std::int64_t i, const std::uint8_t* row) {
        float* to = weights + keys[i].place * dim;
        if (row == nullptr) {
          keys[left++] = keys[i];
        } else if (row == kRemoved) {
          std::fill_n(to, dim, absent);
        } else {
          DecodeRow(layout_.header, row, to);
        }
      });
  asked->resize(left);
  return wrong;
}

template <bool kWhole, typename KeyOf, typename Take>
std::string IndexedTable::FindIn(const std::uint8_t* data, std::int64_t count, const KeyOf& key_of,
                                 const Take& take) const {
  View view(*this, data);
  const auto lines = static_cast<std::uint32_t>(layout_.lines);
  std::uint64_t hashes[kBatch];
  for (std::int64_t first = 0; first < count; first += kBatch) {
    const std::int64_t batch = std::min(kBatch, count - first);
    for (std::int64_t i = 0; i < batch; ++i) {
      hashes[i] = HashOf(key_of(first + i));
      __builtin_prefetch(view.unchecked(HomeOf(hashes[i], lines)));
    }
    for (std::int64_t i = 0; i < batch; ++i) {
      const PackedLine& home = view.line<kWhole>(HomeOf(hashes[i], lines));
      const unsigned found = view.shape().Matches(home, TagOf(hashes[i]));
      const std::uint8_t* row = found == 0 ? nullptr : view.guess(view.shape().row(home, __builtin_ctz(found)));
      if (row != nullptr) FetchRow(row, stride_);
    }
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::int64_t key = key_of(first + i);
      const std::uint8_t* row = nullptr;
      FindRow(
          view.shape(), hashes[i], lines, [&](std::uint32_t at) -> const PackedLine& { return view.line<kWhole>(at); },
          [&](std::uint32_t number) {
            row = view.entry<kWhole>(number, key);
            return row != nullptr;
          });
      take(first + i, row);
    }
    if (view.damaged() != kNoBlock) return name_ + ": " + Damaged(view.damaged());
  }
  return "";
}

}  // namespace afo
