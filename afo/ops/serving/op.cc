// Tables of a served model, read from its assets when it is loaded. Nothing here needs a parameter server, or afo.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "afo/core/indexed_table.h"
#include "afo/core/mapped_tables.h"
#include "afo/core/served_file.h"
#include "afo/core/served_layout.h"
#include "afo/core/served_table.h"
#include "afo/core/served_writer.h"
#include "afo/ops/resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"

namespace afo {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("AfoServedTable")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Output("table: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// path: of a file as served_layout.h or served_table.h has it. What the table held before is gone once it is there. A file
// of the former on this machine is mapped and answers at once, while all of it is copied into memory; stays_mapped: it is
// not copied, so that processes share its pages. in_file: the rows stay in the file, which lookups read. A file may lose
// its name while a table is in it, and may not change.
REGISTER_OP("AfoLoadServedTable")
    .Input("table: resource")
    .Input("path: string")
    .Attr("in_file: bool = false")
    .Attr("stays_mapped: bool = false")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

// keys: of any shape, repeated ones too. dim: of the table.
REGISTER_OP("AfoLookupServed")
    .Input("table: resource")
    .Input("keys: int64")
    .Attr("dim: int >= 1")
    .Output("weights: float")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      std::int64_t dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      ShapeHandle shape;
      TF_RETURN_IF_ERROR(c->Concatenate(c->input(1), c->Vector(dim), &shape));
      c->set_output(0, shape);
      return absl::OkStatus();
    });

// Makes a table's file of one that has rows alone, from byte 4096 on (served_writer.h). type: a RowType; checksum: CRC-32C of
// the rows. error: number of the system's error while the file was written, 0: none.
REGISTER_OP("AfoSealServedTable")
    .Input("path: string")
    .Input("count: int64")
    .Input("absent: float")
    .Input("checksum: int64")
    .Attr("type: int >= 0")
    .Attr("dim: int >= 1")
    .Attr("has_index: bool = true")
    .Output("error: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// Bytes that are read at a time, and what a key costs, which says how many a thread looks up at least.
constexpr std::size_t kPiece = 64u << 20;
constexpr std::int64_t kCostOfAKey = 100;

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

struct FileOptions {
  bool in_file = false;
  bool stays_mapped = false;
};

using Rows = std::shared_ptr<const ServedRows>;
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

absl::StatusOr<Rows> CopyToMemory(const File& file, const std::string& path, const ServedLayout& layout) {
  auto table = std::make_shared<IndexedTable>(layout, path);
  std::string wrong = table->ReadSums(ReaderOf(file));
  if (wrong.empty()) wrong = table->Copy(ReaderOf(file), [] { return false; });
  if (!wrong.empty()) return Malformed(path, wrong);
  return table;
}

absl::StatusOr<Rows> ReadIndexed(const File& file, const std::string& path, const ServedLayout& layout,
                                 const FileOptions& options) {
  if (options.in_file) return LeaveInFile(file, path, layout.header, kBlockBytes, layout);
  const std::string local(absl::StripPrefix(path, "file://"));
  const auto opened = absl::StrContains(local, "://") ? nullptr : MappedFile::Open(local);
  if (opened == nullptr) return CopyToMemory(file, path, layout);
  // Another file may have taken the place of the first; the header is of the one that is mapped, or its blocks differ.
  if (opened->size() != layout.size()) return Malformed(path, "it was changed while it was opened");
  OpenedTable found = OpenTable(
      opened, path, layout, options.stays_mapped ? Placement::kShared : Placement::kPrivate,
      [](const std::string& wrong) { LOG(ERROR) << "afo: a table of a served model: " << wrong; });
  if (!found.wrong.empty()) return Malformed(path, found.wrong);
  if (found.table == nullptr) return CopyToMemory(file, path, layout);
  return found.table;
}

absl::StatusOr<Rows> Read(tensorflow::Env* env, const std::string& path, const FileOptions& options) {
  std::uint64_t size;
  TF_RETURN_IF_ERROR(env->GetFileSize(path, &size));
  std::unique_ptr<tensorflow::RandomAccessFile> opened;
  TF_RETURN_IF_ERROR(env->NewRandomAccessFile(path, &opened));
  const File file = std::move(opened);
  std::vector<char> first(kBlockBytes);
  TF_RETURN_IF_ERROR(ReadAll(*file, 0, first.data(), std::min<std::uint64_t>(size, first.size())));
  if (HasBlocks(first.data())) {
    const ParsedServedLayout parsed = ParseServedLayout(first.data(), size);
    if (!parsed.wrong.empty()) return Malformed(path, parsed.wrong);
    return ReadIndexed(file, path, parsed.layout, options);
  }
  const ParsedServedHeader parsed = ParseServedHeader(first.data(), size);
  if (!parsed.wrong.empty()) return Malformed(path, parsed.wrong);
  std::uint32_t checksum;
  TF_RETURN_IF_ERROR(ReadAll(*file, size - kServedTrailerBytes, reinterpret_cast<char*>(&checksum), sizeof(checksum)));
  if (options.in_file) return LeaveInFile(file, path, parsed.header, kServedHeaderBytes, checksum);
  return ReadToMemory(file, path, parsed.header, checksum);
}

// Thread-safe: who looks up keeps the table that was there when it began.
class Served : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "a table of a served model"; }
  std::int64_t MemoryUsed() const override {
    const auto table = Get();
    return table == nullptr ? 0 : static_cast<std::int64_t>(table->bytes());
  }
  Rows Get() const {
    std::lock_guard lock(mutex_);
    return table_;
  }
  void Set(Rows table) {
    std::lock_guard lock(mutex_);
    table_.swap(table);
  }

 private:
  mutable std::mutex mutex_;
  Rows table_;
};

class LoadServedTableOp : public OpKernel {
 public:
  explicit LoadServedTableOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("in_file", &options_.in_file));
    OP_REQUIRES_OK(context, context->GetAttr("stays_mapped", &options_.stays_mapped));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& path = context->input(1);
    OP_REQUIRES(context, path.NumElements() == 1, absl::InvalidArgumentError("the path of a table is one string"));
    OP_REQUIRES_VALUE(Rows table, context, Read(context->env(), path.flat<tensorflow::tstring>()(0), options_));
    tensorflow::core::RefCountPtr<Served> served;
    OP_REQUIRES_OK(context, tensorflow::LookupOrCreateResource<Served>(
                                context, tensorflow::HandleFromInput(context, 0), &served, [](Served** created) {
                                  *created = new Served();
                                  return absl::OkStatus();
                                }));
    served->Set(std::move(table));
  }

 private:
  FileOptions options_;
};

class LookupServedOp : public OpKernel {
 public:
  explicit LookupServedOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("dim", &dim_));
  }

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<Served> served;
    OP_REQUIRES_OK(context,
                   tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), &served));
    const Rows table = served->Get();
    OP_REQUIRES(context, table != nullptr, absl::FailedPreconditionError("the table of the model was not loaded"));
    OP_REQUIRES(context, table->header().dim == dim_,
                absl::InvalidArgumentError(absl::StrCat("the table has rows of ", table->header().dim,
                                                        " weights, and the model wants ", dim_)));
    const Tensor& keys = context->input(1);
    tensorflow::TensorShape shape = keys.shape();
    OP_REQUIRES_OK(context, shape.AddDimWithStatus(dim_));
    Tensor* weights = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &weights));
    const std::int64_t* from = keys.flat<std::int64_t>().data();
    float* to = weights->flat<float>().data();
    std::mutex mutex;
    std::string wrong;
    ThreadsOf(context)(keys.NumElements(), kCostOfAKey, [&](std::int64_t first, std::int64_t last) {
      std::string found = table->Lookup(from + first, last - first, to + first * dim_);
      std::lock_guard lock(mutex);
      if (!found.empty()) wrong = std::move(found);
    });
    OP_REQUIRES(context, wrong.empty(), absl::DataLossError(absl::StrCat("a table of the model is lost: ", wrong)));
  }

 private:
  std::int64_t dim_;
};

class SealServedTableOp : public OpKernel {
 public:
  explicit SealServedTableOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("type", &type_));
    OP_REQUIRES_OK(context, context->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(context, context->GetAttr("has_index", &has_index_));
  }

  void Compute(OpKernelContext* context) override {
    for (int i = 0; i < 4; ++i) {
      OP_REQUIRES(context, context->input(i).NumElements() == 1,
                  absl::InvalidArgumentError("the inputs of a table's file are one value each"));
    }
    const std::string path = context->input(0).flat<tensorflow::tstring>()(0);
    const std::int64_t count = context->input(1).flat<std::int64_t>()(0);
    OP_REQUIRES(context, count >= 0, absl::InvalidArgumentError("a table has no fewer than 0 rows"));
    const std::string shape = WrongShape(static_cast<std::uint32_t>(type_), static_cast<std::uint32_t>(dim_),
                                         static_cast<std::uint64_t>(count));
    OP_REQUIRES(context, shape.empty(), absl::InvalidArgumentError(absl::StrCat("no table can be written: ", shape)));
    const Sealing sealing{
        .header = {.type = static_cast<RowType>(type_),
                   .dim = static_cast<std::int32_t>(dim_),
                   .count = static_cast<std::uint64_t>(count),
                   .absent = context->input(2).flat<float>()(0)},
        .rows_checksum = static_cast<std::uint32_t>(context->input(3).flat<std::int64_t>()(0)),
        .has_index = has_index_};
    Tensor* error = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &error));
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) {
      error->scalar<std::int32_t>()() = errno;
      return;
    }
    const Sealed sealed = Seal({file}, sealing);
    close(file);
    OP_REQUIRES(context, sealed.wrong.empty(), absl::DataLossError(absl::StrCat(path, ": ", sealed.wrong)));
    error->scalar<std::int32_t>()() = sealed.error;
  }

 private:
  std::int64_t type_, dim_;
  bool has_index_;
};

REGISTER_KERNEL_BUILDER(Name("AfoServedTable").Device(tensorflow::DEVICE_CPU), tensorflow::ResourceHandleOp<Served>);
REGISTER_KERNEL_BUILDER(Name("AfoLoadServedTable").Device(tensorflow::DEVICE_CPU), LoadServedTableOp);
REGISTER_KERNEL_BUILDER(Name("AfoLookupServed").Device(tensorflow::DEVICE_CPU), LookupServedOp);
REGISTER_KERNEL_BUILDER(Name("AfoSealServedTable").Device(tensorflow::DEVICE_CPU), SealServedTableOp);

}  // namespace
}  // namespace afo
