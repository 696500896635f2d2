#include "afo/ops/serving/served_table_reader.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "afo/core/indexed_table.h"
#include "afo/core/layered_table.h"
#include "afo/core/mapped_tables.h"
#include "afo/core/served_file.h"
#include "afo/core/served_layout.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/path.h"

namespace afo {
namespace {

// Bytes that are read at a time.
constexpr std::size_t kPiece = 64u << 20;
// A chain of changes, whose end would else never be reached.
constexpr std::size_t kMostLayers = 64;

absl::Status ReadAll(const tensorflow::RandomAccessFile& file, std::uint64_t offset, char* to, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    absl::string_view found;
    const std::size_t piece = std::min(kPiece, size - done);
    TF_RETURN_IF_ERROR(file.Read(offset + done, found, absl::MakeSpan(to + done, piece)));
    // A file system may answer with memory of its own.
    if (found.data() != to + done) std::memcpy(to + done, found.data(), found.size());
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status Malformed(const std::string& path, const std::string& wrong) {
  return absl::DataLossError(absl::StrCat(path, " is no table of a served model: ", wrong, "; export the model again"));
}

using Rows = std::shared_ptr<const ServedRows>;
using Indexed = std::shared_ptr<const IndexedTable>;
using File = std::shared_ptr<const tensorflow::RandomAccessFile>;

absl::StatusOr<Rows> ReadToMemory(const File& file, const std::string& path, const ServedHeader& header,
                                  std::uint32_t checksum) {
  auto table = std::make_shared<ServedTable>(header);
  if (!table->Reserve()) return absl::ResourceExhaustedError(absl::StrCat("no memory is left for ", path));
  TF_RETURN_IF_ERROR(ReadAll(*file, kServedHeaderBytes, table->rows(), table->row_bytes()));
  const std::string wrong = table->Build(checksum);
  if (!wrong.empty()) return Malformed(path, wrong);
  return table;
}

ReadAt ReaderOf(const File& file) {
  return [file](std::uint64_t offset, char* to, std::size_t size) {
    const absl::Status status = ReadAll(*file, offset, to, size);
    return status.ok() ? "" : absl::StrCat("it cannot be read: ", status.message());
  };
}

// What is before the rows: a ServedLayout, or the checksum of all rows.
template <typename Checked>
absl::StatusOr<Rows> LeaveInFile(const File& file, const std::string& path, const ServedHeader& header,
                                 std::uint64_t rows_at, const Checked& checked) {
  auto table = std::make_shared<ServedFile>(header, rows_at, ReaderOf(file));
  const std::string wrong = table->Build(checked);
  if (!wrong.empty()) return Malformed(path, wrong);
  return table;
}

absl::StatusOr<Indexed> CopyToMemory(const File& file, const std::string& path, const ServedLayout& layout) {
  auto table = std::make_shared<IndexedTable>(layout, path);
  std::string wrong = table->ReadSums(ReaderOf(file));
  if (wrong.empty()) wrong = table->Copy(ReaderOf(file), [] { return false; });
  if (!wrong.empty()) return Malformed(path, wrong);
  return table;
}

absl::StatusOr<Indexed> OpenIndexed(const File& file, const std::string& path, const ServedLayout& layout,
                                    const ServedTableOptions& options) {
  const std::string local(absl::StripPrefix(path, "file://"));
  const auto opened = absl::StrContains(local, "://") ? nullptr : MappedFile::Open(local);
  if (opened == nullptr) return CopyToMemory(file, path, layout);
  // Another file may have taken the place of the first; the header is of the one that is mapped, or its blocks differ.
  if (opened->size() != layout.size()) return Malformed(path, "it was changed while it was opened");
  OpenedTable found =
      OpenTable(opened, path, layout, options.stays_mapped ? Placement::kShared : Placement::kPrivate,
                [path](const std::string& wrong) { LOG(ERROR) << path << ", a table of a served model: " << wrong; });
  if (!found.wrong.empty()) return Malformed(path, found.wrong);
  if (found.table == nullptr) return CopyToMemory(file, path, layout);
  return found.table;
}

// A file, and its first bytes.
struct Opened {
  File file;
  std::uint64_t size = 0;
  std::vector<char> first = std::vector<char>(kBlockBytes);
};

// Whether a file of this machine is something else, to open which might wait for somebody to write.
bool IsIrregular(const std::string& path) {
  struct stat found;
  const std::string local(absl::StripPrefix(path, "file://"));
  // The system's own call: until glibc 2.33 stat was no function of the library's.
  return !absl::StrContains(local, "://") && syscall(SYS_stat, local.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
}

absl::StatusOr<Opened> Open(tensorflow::Env* env, const std::string& path) {
  if (IsIrregular(path)) return Malformed(path, "it is no regular file");
  Opened opened;
  TF_RETURN_IF_ERROR(env->GetFileSize(path, &opened.size));
  std::unique_ptr<tensorflow::RandomAccessFile> file;
  TF_RETURN_IF_ERROR(env->NewRandomAccessFile(path, &file));
  opened.file = std::move(file);
  const std::uint64_t size = std::min<std::uint64_t>(opened.size, opened.first.size());
  TF_RETURN_IF_ERROR(ReadAll(*opened.file, 0, opened.first.data(), size));
  return opened;
}

// What a path that is relative to the directory of `file` leads to.
std::string Beside(const std::string& file, const std::string& relative) {
  const std::string path = tensorflow::io::JoinPath(std::string(tensorflow::io::Dirname(file)), relative);
  // Of a URL it would make one slash of two.
  return absl::StrContains(path, "://") ? path : tensorflow::io::CleanPath(path);
}

// The layout of the table that `path` has changes of.
absl::StatusOr<ServedLayout> ReadParent(const absl::StatusOr<Opened>& opened, const std::string& path,
                                        const ServedLayout& changes, const std::string& parent) {
  if (!opened.ok()) {
    return absl::Status(opened.status().code(), absl::StrCat(path, " has the changes of ", parent,
                                                             ", which cannot be read: ", opened.status().message()));
  }
  if (!HasBlocks(opened->first.data())) return Malformed(parent, "it is of a form that has no changes");
  ParsedServedLayout parsed = ParseServedLayout(opened->first.data(), opened->size);
  if (!parsed.wrong.empty()) return Malformed(parent, parsed.wrong);
  if (parsed.layout.id() != changes.parent || parsed.layout.header.dim != changes.header.dim) {
    return Malformed(path, absl::StrCat(parent, " is not the table whose changes it has"));
  }
  return std::move(parsed.layout);
}

// The table at `path`, which has changes alone, over those that they are of.
absl::StatusOr<Rows> ReadLayers(tensorflow::Env* env, Indexed newest, ServedLayout layout, std::string path,
                                const ServedTableOptions& options) {
  std::vector<Indexed> layers{std::move(newest)};
  while (!layout.is_whole()) {
    if (layers.size() == kMostLayers)
      return Malformed(path, absl::StrCat("under it are over ", kMostLayers, " tables"));
    const std::string parent = Beside(path, layout.parent_path);
    const absl::StatusOr<Opened> opened = Open(env, parent);
    absl::StatusOr<ServedLayout> found = ReadParent(opened, path, layout, parent);
    if (!found.ok()) return found.status();
    absl::StatusOr<Indexed> layer = OpenIndexed(opened->file, parent, *found, options);
    if (!layer.ok()) return layer.status();
    layers.push_back(*std::move(layer));
    layout = *std::move(found);
    path = parent;
  }
  return std::make_shared<LayeredTable>(std::move(layers));
}

absl::StatusOr<Rows> ReadIndexed(tensorflow::Env* env, const Opened& opened, const std::string& path,
                                 const ServedTableOptions& options) {
  ParsedServedLayout parsed = ParseServedLayout(opened.first.data(), opened.size);
  if (!parsed.wrong.empty()) return Malformed(path, parsed.wrong);
  const ServedLayout& layout = parsed.layout;
  if (options.in_file && !layout.is_whole())
    return Malformed(path, "it has changes of another table and not a whole one");
  if (options.in_file) return LeaveInFile(opened.file, path, layout.header, layout.rows_at(), layout);
  absl::StatusOr<Indexed> table = OpenIndexed(opened.file, path, layout, options);
  if (!table.ok() || layout.is_whole()) return table;
  return ReadLayers(env, *std::move(table), layout, path, options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ServedRows>> ReadServedTable(tensorflow::Env* env, const std::string& path,
                                                                  const ServedTableOptions& options) {
  absl::StatusOr<Opened> opened = Open(env, path);
  if (!opened.ok()) return opened.status();
  if (HasBlocks(opened->first.data())) return ReadIndexed(env, *opened, path, options);
  const ParsedServedHeader parsed = ParseServedHeader(opened->first.data(), opened->size);
  if (!parsed.wrong.empty()) return Malformed(path, parsed.wrong);
  std::uint32_t checksum;
  TF_RETURN_IF_ERROR(
      ReadAll(*opened->file, opened->size - kServedTrailerBytes, reinterpret_cast<char*>(&checksum), sizeof(checksum)));
  if (options.in_file) return LeaveInFile(opened->file, path, parsed.header, kServedHeaderBytes, checksum);
  return ReadToMemory(opened->file, path, parsed.header, checksum);
}

}  // namespace afo
