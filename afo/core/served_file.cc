#include "afo/core/served_file.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "afo/core/served_layout.h"
#include "afo/core/snapshot.h"

namespace afo {
namespace {

// A page: what the system reads for one row as well.
constexpr std::size_t kPieceBytes = 4096;
// What is read at a time while all rows are.
constexpr std::size_t kScanBytes = 1u << 20;

struct Asked {
  std::int64_t key;
  std::int64_t place;
};

std::int64_t KeyAt(const char* row) {
  std::int64_t key;
  std::memcpy(&key, row, sizeof(key));
  return key;
}

// The row of `key` among `count` that rise, or nullptr.
const char* Find(const char* rows, std::size_t count, std::size_t stride, std::int64_t key) {
  std::size_t low = 0;
  for (std::size_t high = count; low < high;) {
    const std::size_t middle = low + (high - low) / 2;
    if (KeyAt(rows + middle * stride) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && KeyAt(rows + low * stride) == key ? rows + low * stride : nullptr;
}

}  // namespace

ServedFile::ServedFile(const ServedHeader& header, std::uint64_t rows_at, ReadAt read)
    : header_(header),
      rows_at_(rows_at),
      read_(std::move(read)),
      stride_(header.stride()),
      rows_of_piece_(std::max<std::size_t>(1, kPieceBytes / stride_)) {}

std::size_t ServedFile::RowsOf(std::size_t piece) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(rows_of_piece_, header_.count - piece * rows_of_piece_));
}

std::string ServedFile::ReadRows(std::uint64_t first, std::size_t count, std::vector<char>* rows) const {
  rows->resize(count * stride_);
  return read_(rows_at_ + first * stride_, rows->data(), rows->size());
}

std::string ServedFile::Scan(const std::function<void(const char*, std::size_t)>& take) {
  assert(firsts_.empty());
  std::vector<char> rows;
  const std::size_t most = std::max<std::size_t>(1, kScanBytes / stride_ / rows_of_piece_) * rows_of_piece_;
  std::int64_t last = 0;
  for (std::uint64_t first = 0; first < header_.count; first += most) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(most, header_.count - first));
    if (std::string wrong = ReadRows(first, count, &rows); !wrong.empty()) return wrong;
    take(rows.data(), rows.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t key = KeyAt(rows.data() + i * stride_);
      rise_ = rise_ && (first + i == 0 || key > last);
      last = key;
      if (i % rows_of_piece_ == 0) firsts_.push_back(key);
    }
  }
  return "";
}

std::string ServedFile::Build(std::uint32_t checksum) {
  std::uint32_t found = 0;
  std::string wrong = Scan([&](const char* bytes, std::size_t size) { found = Crc32c(bytes, size, found); });
  if (!wrong.empty()) return wrong;
  if (found != checksum) return "its rows are damaged";
  return rise_ ? "" : "its keys do not rise";
}

std::string ServedFile::Build(const ServedLayout& layout) {
  std::vector<std::uint32_t> sums(layout.blocks());
  auto* bytes = reinterpret_cast<char*>(sums.data());
  const std::size_t size = sums.size() * sizeof(std::uint32_t);
  if (std::string wrong = read_(layout.sums_at(), bytes, size); !wrong.empty()) return wrong;
  if (Crc32c(bytes, size) != layout.sums_checksum) return "its checksums are damaged";
  BlockSums found(layout.rows_at());
  std::string wrong = Scan([&](const char* rows, std::size_t count) { found.Add(rows, count); });
  if (!wrong.empty()) return wrong;
  // What else is in the last block of rows.
  const std::uint64_t end = layout.rows_end(), page = (end + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  std::vector<char> behind(static_cast<std::size_t>(std::min(page, layout.sums_at()) - end));
  if (wrong = read_(end, behind.data(), behind.size()); !wrong.empty()) return wrong;
  found.Add(behind.data(), behind.size());
  found.Finish();
  if (!std::equal(found.sums().begin(), found.sums().end(), sums.begin())) return "its rows are damaged";
  return rise_ ? "" : "its keys do not rise";
}

std::string ServedFile::Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const {
  std::vector<Asked> asked(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) asked[static_cast<std::size_t>(i)] = {keys[i], i};
  // Keys of one piece follow each other, equal ones too, and the file is read forwards.
  std::sort(asked.begin(), asked.end(), [](const Asked& a, const Asked& b) { return a.key < b.key; });
  std::vector<char> rows;
  auto next = firsts_.begin();
  std::size_t loaded = 0;  // rows in `rows`, of the piece before `next`
  for (const Asked& each : asked) {
    const auto behind = std::upper_bound(next, firsts_.end(), each.key);
    if (behind != next || loaded == 0) {
      next = behind;
      if (next != firsts_.begin()) {
        const auto piece = static_cast<std::size_t>(next - firsts_.begin()) - 1;
        loaded = RowsOf(piece);
        if (std::string wrong = ReadRows(piece * rows_of_piece_, loaded, &rows); !wrong.empty()) return wrong;
      }
    }
    const char* row = Find(rows.data(), loaded, stride_, each.key);
    DecodeRow(header_, reinterpret_cast<const std::uint8_t*>(row), weights + each.place * header_.dim);
  }
  return "";
}

}  // namespace afo
