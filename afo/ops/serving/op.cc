// Tables of a served model, read from its assets when it is loaded. Nothing here needs a parameter server, or afo.

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "afo/core/served_file.h"
#include "afo/core/served_table.h"
#include "afo/ops/resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/env.h"

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

// path: of a file as served_table.h has it. What the table held before is gone once all of it is read. in_file: the rows
// stay in the file, which lookups read; it may lose its name meanwhile, and may not change.
REGISTER_OP("AfoLoadServedTable")
    .Input("table: resource")
    .Input("path: string")
    .Attr("in_file: bool = false")
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

absl::StatusOr<Rows> LeaveInFile(const File& file, const std::string& path, const ServedHeader& header,
                                 std::uint32_t checksum) {
  auto table = std::make_shared<ServedFile>(header, [file](std::uint64_t offset, char* to, std::size_t size) {
    const absl::Status status = ReadAll(*file, offset, to, size);
    return status.ok() ? "" : absl::StrCat("it cannot be read: ", status.message());
  });
  const std::string wrong = table->Build(checksum);
  if (!wrong.empty()) return Malformed(path, wrong);
  return table;
}

absl::StatusOr<Rows> Read(tensorflow::Env* env, const std::string& path, bool in_file) {
  std::uint64_t size;
  TF_RETURN_IF_ERROR(env->GetFileSize(path, &size));
  std::unique_ptr<tensorflow::RandomAccessFile> opened;
  TF_RETURN_IF_ERROR(env->NewRandomAccessFile(path, &opened));
  const File file = std::move(opened);
  char first[kServedHeaderBytes] = {};
  TF_RETURN_IF_ERROR(ReadAll(*file, 0, first, std::min<std::uint64_t>(size, sizeof(first))));
  const ParsedServedHeader parsed = ParseServedHeader(first, size);
  if (!parsed.wrong.empty()) return Malformed(path, parsed.wrong);
  std::uint32_t checksum;
  TF_RETURN_IF_ERROR(ReadAll(*file, size - kServedTrailerBytes, reinterpret_cast<char*>(&checksum), sizeof(checksum)));
  return in_file ? LeaveInFile(file, path, parsed.header, checksum) : ReadToMemory(file, path, parsed.header, checksum);
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
    OP_REQUIRES_OK(context, context->GetAttr("in_file", &in_file_));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& path = context->input(1);
    OP_REQUIRES(context, path.NumElements() == 1, absl::InvalidArgumentError("the path of a table is one string"));
    OP_REQUIRES_VALUE(Rows table, context, Read(context->env(), path.flat<tensorflow::tstring>()(0), in_file_));
    tensorflow::core::RefCountPtr<Served> served;
    OP_REQUIRES_OK(context, tensorflow::LookupOrCreateResource<Served>(
                                context, tensorflow::HandleFromInput(context, 0), &served, [](Served** created) {
                                  *created = new Served();
                                  return absl::OkStatus();
                                }));
    served->Set(std::move(table));
  }

 private:
  bool in_file_;
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

REGISTER_KERNEL_BUILDER(Name("AfoServedTable").Device(tensorflow::DEVICE_CPU), tensorflow::ResourceHandleOp<Served>);
REGISTER_KERNEL_BUILDER(Name("AfoLoadServedTable").Device(tensorflow::DEVICE_CPU), LoadServedTableOp);
REGISTER_KERNEL_BUILDER(Name("AfoLookupServed").Device(tensorflow::DEVICE_CPU), LookupServedOp);

}  // namespace
}  // namespace afo
