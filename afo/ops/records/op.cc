// Records of a TFRecord file, or of a part of it, as blocks of strings, in an order that is fixed by a seed.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "afo/ops/records/ahead.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::shape_inference::InferenceContext;

// The file lives as long as its handle. begin, end: the bytes that are read; an end below 0 is the file's. seed, buffer,
// skip, tolerant: see RecordOptions. block: records that are read at once, one block ahead.
REGISTER_OP("AfoOpenRecords")
    .Input("path: string")
    .Input("begin: int64")
    .Input("end: int64")
    .Input("seed: int64")
    .Input("buffer: int64")
    .Input("skip: int64")
    .Input("block: int64")
    .Attr("compression: {'none', 'gzip', 'zlib'}")
    .Attr("tolerant: bool")
    .Output("file: resource")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return absl::OkStatus();
    });

// A block of records, smaller at the end alone, empty behind it; what is wrong with those left out meanwhile; and why the
// file cannot be read any further, '' while it can: an error of TensorFlow's would put words of its own around that.
REGISTER_OP("AfoNextRecords")
    .Input("file: resource")
    .Output("records: string")
    .Output("damaged: string")
    .Output("lost: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(2, c->Scalar());
      return absl::OkStatus();
    });

class OpenRecordsOp : public OpKernel {
 public:
  explicit OpenRecordsOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string compression;
    OP_REQUIRES_OK(context, context->GetAttr("compression", &compression));
    compression_ = compression == "gzip"   ? Compression::kGzip
                   : compression == "zlib" ? Compression::kZlib
                                           : Compression::kNone;
    OP_REQUIRES_OK(context, context->GetAttr("tolerant", &tolerant_));
  }

  void Compute(OpKernelContext* context) override {
    for (int i = 0; i < 7; ++i) {
      OP_REQUIRES(context, context->input(i).dims() == 0, absl::InvalidArgumentError("scalars"));
    }
    const std::string path = context->input(0).scalar<tstring>()();
    const auto number = [context](int input) { return context->input(input).scalar<int64_t>()(); };
    ByteRange range{static_cast<std::uint64_t>(number(1)), ByteRange::kWhole};
    if (number(2) >= 0) range.end = static_cast<std::uint64_t>(number(2));
    OP_REQUIRES(context, number(1) >= 0 && range.begin <= range.end,
                absl::InvalidArgumentError("begin is 0 or more, and not behind the end"));
    OP_REQUIRES(context, compression_ == Compression::kNone || (range.begin == 0 && range.is_whole()),
                absl::InvalidArgumentError("a compressed file is read as a whole"));
    const RecordOptions options{.compression = compression_,
                                .range = range,
                                .seed = number(3),
                                .buffer = number(4),
                                .skip = number(5),
                                .tolerant = tolerant_};
    const int64_t block = number(6);
    OP_REQUIRES(context, options.buffer >= 1 && options.skip >= 0 && block >= 1,
                absl::InvalidArgumentError("buffer and block are 1 or more, skip 0 or more"));
    Tensor* out = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &out));
    auto records = std::make_unique<ShuffledRecords>(path, options);
    out->scalar<ResourceHandle>()() = ResourceHandle::MakeRefCountingHandle(
        new BlocksAhead(std::move(records), block), context->device()->name());
  }

 private:
  Compression compression_;
  bool tolerant_;
};

class NextRecordsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const auto handle = context->input(0).scalar<ResourceHandle>()();
    const auto file = handle.GetResource<BlocksAhead>();
    OP_REQUIRES_OK(context, file.status());
    RecordBlock block = (*file)->Next();
    Tensor *given = nullptr, *wrong = nullptr, *end = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {static_cast<int64_t>(block.records.size())}, &given));
    OP_REQUIRES_OK(context, context->allocate_output(1, {static_cast<int64_t>(block.damaged.size())}, &wrong));
    OP_REQUIRES_OK(context, context->allocate_output(2, {}, &end));
    end->scalar<tstring>()() = block.lost;
    for (std::size_t i = 0; i < block.records.size(); ++i) given->vec<tstring>()(i) = std::move(block.records[i]);
    for (std::size_t i = 0; i < block.damaged.size(); ++i) wrong->vec<tstring>()(i) = block.damaged[i];
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoOpenRecords").Device(tensorflow::DEVICE_CPU), OpenRecordsOp);
REGISTER_KERNEL_BUILDER(Name("AfoNextRecords").Device(tensorflow::DEVICE_CPU), NextRecordsOp);

}  // namespace
}  // namespace afo
