#include "afo/core/index_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "afo/core/hash.h"
#include "afo/core/index.h"

namespace afo {
namespace {

// What a window waits with in memory before it is written: 48 KiB.
constexpr std::size_t kPiece = 4096;

}  // namespace

int OpenFile::Write(std::uint64_t offset, const void* from, std::size_t size) const {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count =
        pwrite(number, static_cast<const char*>(from) + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

int OpenFile::Read(std::uint64_t offset, void* to, std::size_t size) const {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = pread(number, static_cast<char*>(to) + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

int OpenFile::Cut(std::uint64_t size) const { return ftruncate(number, static_cast<off_t>(size)) == 0 ? 0 : errno; }

IndexWriter::IndexWriter(OpenFile file, std::uint64_t at, const PackedShape& shape, std::uint32_t lines,
                         std::uint32_t window)
    : file_(file),
      at_(at),
      shape_(shape),
      lines_(lines),
      window_(window),
      end_(at + std::uint64_t{lines} * sizeof(PackedLine)),
      waiting_((std::size_t{lines} + window - 1) / window) {
  if (waiting_.size() == 1) filled_.assign(lines, PackedLine{});
}

std::uint64_t IndexWriter::offset_of(std::size_t window) const { return at_ + window * window_ * sizeof(PackedLine); }

std::size_t IndexWriter::lines_of(std::size_t window) const {
  return std::min<std::size_t>(window_, lines_ - window * window_);
}

int IndexWriter::Put(std::uint64_t hash, std::uint32_t row) {
  const std::uint32_t home = HomeOf(hash, lines_);
  const Entry entry{home % window_, row, TagOf(hash)};
  if (waiting_.size() == 1) {
    Place(lines_, entry.home, entry);
    return 0;
  }
  Waiting& waiting = waiting_[home / window_];
  waiting.entries.push_back(entry);
  if (waiting.entries.size() < kPiece) return 0;
  const std::size_t bytes = kPiece * sizeof(Entry);
  if (const int error = file_.Write(end_, waiting.entries.data(), bytes); error != 0) return error;
  waiting.pieces.push_back(std::exchange(end_, end_ + bytes));
  waiting.entries.clear();
  return 0;
}

void IndexWriter::Place(std::size_t lines, std::size_t line, const Entry& entry) {
  const auto tag = static_cast<std::uint8_t>(entry.tag);
  for (; line < lines; ++line) {
    if (PlaceIn(shape_, &filled_[line], tag, entry.row)) return;
  }
  carried_.push_back(entry);
}

int IndexWriter::Fill(std::size_t window) {
  const std::size_t lines = lines_of(window);
  if (waiting_.size() > 1) filled_.assign(lines, PackedLine{});
  if (window > 0) {
    for (const Entry& entry : std::exchange(carried_, {})) Place(lines, 0, entry);
  }
  std::vector<Entry> piece(kPiece);
  for (const std::uint64_t offset : waiting_[window].pieces) {
    if (const int error = file_.Read(offset, piece.data(), kPiece * sizeof(Entry)); error != 0) return error;
    for (const Entry& entry : piece) Place(lines, entry.home, entry);
  }
  for (const Entry& entry : waiting_[window].entries) Place(lines, entry.home, entry);
  waiting_[window] = {};
  return file_.Write(offset_of(window), filled_.data(), lines * sizeof(PackedLine));
}

int IndexWriter::PlaceCarried(std::size_t window) {
  const std::size_t lines = lines_of(window);
  filled_.resize(lines);
  if (const int error = file_.Read(offset_of(window), filled_.data(), lines * sizeof(PackedLine)); error != 0)
    return error;
  for (const Entry& entry : std::exchange(carried_, {})) Place(lines, 0, entry);
  return file_.Write(offset_of(window), filled_.data(), lines * sizeof(PackedLine));
}

int IndexWriter::Finish() {
  for (std::size_t window = 0; window < waiting_.size(); ++window) {
    if (const int error = Fill(window); error != 0) return error;
  }
  // Behind the last line is the first.
  for (std::size_t window = 0; !carried_.empty(); window = (window + 1) % waiting_.size()) {
    if (const int error = PlaceCarried(window); error != 0) return error;
  }
  return file_.Cut(at_ + std::uint64_t{lines_} * sizeof(PackedLine));
}

}  // namespace afo
