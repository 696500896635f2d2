// Tables of a served model, read from its assets when it is loaded. Nothing here needs a parameter server, or afo.

#include "tensorflow/core/framework/op.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/core/served_writer.h"
#include "afo/ops/serving/served_resource.h"
#include "afo/ops/serving/served_table_reader.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("AfoServedTable")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Output("table: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

// path: of a file as served_layout.h or served_table.h has it. What the table held before is gone once it is there. A
// file of the former on this machine is mapped and answers at once, while all of it is copied into memory;
// stays_mapped: it is not copied, so that processes share its pages. in_file: the rows stay in the file, which lookups
// read. A file may lose its name while a table is in it, and may not change.
REGISTER_OP("AfoLoadServedTable")
    .Input("table: resource")
    .Input("path: string")
    .Attr("in_file: bool = false")
    .Attr("stays_mapped: bool = false")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

// The files of a table, the newest changes first: what tells files that are open in this process apart, and the bytes
// of each.
REGISTER_OP("AfoServedTableParts")
    .Input("table: resource")
    .Output("identities: int64")
    .Output("bytes: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    });

// Makes a table's file of one that has rows alone, behind the place of its header (served_writer.h), and removed keys.
// type: a RowType; checksum: CRC-32C of the rows and removed keys. parent, parent_path: of the table whose changes
// these are, 0 and "" for a whole one. error: number of the system's error while the file was written, 0: none.
REGISTER_OP("AfoSealServedTable")
    .Input("path: string")
    .Input("count: int64")
    .Input("absent: float")
    .Input("checksum: int64")
    .Input("removed: int64")
    .Input("parent: uint64")
    .Input("parent_path: string")
    .Attr("type: int >= 0")
    .Attr("dim: int >= 1")
    .Attr("has_index: bool = true")
    .Output("error: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

class LoadServedTableOp : public OpKernel {
 public:
  explicit LoadServedTableOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("in_file", &options_.in_file));
    OP_REQUIRES_OK(context, context->GetAttr("stays_mapped", &options_.stays_mapped));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& path = context->input(1);
    OP_REQUIRES(context, path.NumElements() == 1, absl::InvalidArgumentError("the path of a table is one string"));
    OP_REQUIRES_VALUE(Rows table, context,
                      ReadServedTable(context->env(), path.flat<tensorflow::tstring>()(0), options_));
    tensorflow::core::RefCountPtr<Served> served;
    OP_REQUIRES_OK(context, tensorflow::LookupOrCreateResource<Served>(context, tensorflow::HandleFromInput(context, 0),
                                                                       &served, [](Served** created) {
                                                                         *created = new Served();
                                                                         return absl::OkStatus();
                                                                       }));
    served->Set(std::move(table));
  }

 private:
  ServedTableOptions options_;
};

class ServedTablePartsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_VALUE(const Rows table, context, LoadedRows(context, 0));
    const std::vector<ServedPart> parts = table->parts();
    const tensorflow::TensorShape shape({static_cast<std::int64_t>(parts.size())});
    Tensor *identities = nullptr, *bytes = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &identities));
    OP_REQUIRES_OK(context, context->allocate_output(1, shape, &bytes));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      identities->vec<std::int64_t>()(place) = reinterpret_cast<std::intptr_t>(parts[i].identity);
      bytes->vec<std::int64_t>()(place) = static_cast<std::int64_t>(parts[i].bytes);
    }
  }
};

class SealServedTableOp : public OpKernel {
 public:
  explicit SealServedTableOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("type", &type_));
    OP_REQUIRES_OK(context, context->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(context, context->GetAttr("has_index", &has_index_));
  }

  void Compute(OpKernelContext* context) override {
    for (int i = 0; i < context->num_inputs(); ++i) {
      OP_REQUIRES(context, context->input(i).NumElements() == 1,
                  absl::InvalidArgumentError("the inputs of a table's file are one value each"));
    }
    const std::string path = context->input(0).flat<tensorflow::tstring>()(0);
    const std::int64_t count = context->input(1).flat<std::int64_t>()(0);
    const std::int64_t removed = context->input(4).flat<std::int64_t>()(0);
    OP_REQUIRES(context, count >= 0 && removed >= 0, absl::InvalidArgumentError("a table has no fewer than 0 rows"));
    const std::string parent_path = context->input(6).flat<tensorflow::tstring>()(0);
    OP_REQUIRES(context, parent_path.size() <= kMostParentPath,
                absl::InvalidArgumentError(absl::StrCat("the path of a table's parent has ", parent_path.size(),
                                                        " bytes; allowed are ", kMostParentPath)));
    const std::string shape = WrongShape(static_cast<std::uint32_t>(type_), static_cast<std::uint32_t>(dim_),
                                         static_cast<std::uint64_t>(count));
    OP_REQUIRES(context, shape.empty(), absl::InvalidArgumentError(absl::StrCat("no table can be written: ", shape)));
    OP_REQUIRES(context, static_cast<std::uint64_t>(removed) < kNoRow - static_cast<std::uint64_t>(count),
                absl::InvalidArgumentError("no table can be written: it has more keys than a table can"));
    const Sealing sealing{.header = {.type = static_cast<RowType>(type_),
                                     .dim = static_cast<std::int32_t>(dim_),
                                     .count = static_cast<std::uint64_t>(count),
                                     .absent = context->input(2).flat<float>()(0)},
                          .rows_checksum = static_cast<std::uint32_t>(context->input(3).flat<std::int64_t>()(0)),
                          .removed = static_cast<std::uint64_t>(removed),
                          .parent = context->input(5).flat<std::uint64_t>()(0),
                          .parent_path = parent_path,
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
REGISTER_KERNEL_BUILDER(Name("AfoServedTableParts").Device(tensorflow::DEVICE_CPU), ServedTablePartsOp);
REGISTER_KERNEL_BUILDER(Name("AfoSealServedTable").Device(tensorflow::DEVICE_CPU), SealServedTableOp);

}  // namespace
}  // namespace afo
