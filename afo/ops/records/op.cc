// Records of a TFRecord file as blocks of strings, in an order that is fixed by a seed.

#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../core/record_file.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"
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

// The file lives as long as its handle. seed: of the order; records wait among `buffer` others until they are drawn, 1
// keeps the file's order. skip: records of that order that are not given. tolerant: damaged data are left out.
REGISTER_OP("AfoOpenRecords")
    .Input("path: string")
    .Input("seed: int64")
    .Input("buffer: int64")
    .Input("skip: int64")
    .Attr("tolerant: bool")
    .Output("file: resource")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return absl::OkStatus();
    });

// Up to `count` records, fewer at the end alone, none behind it; what is wrong with those left out meanwhile; and why the
// file cannot be read any further, '' while it can: an error of TensorFlow's would put words of its own around that.
REGISTER_OP("AfoNextRecords")
    .Input("file: resource")
    .Input("count: int64")
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

// Draws from a buffer that the file refills: with the same seed the same records in the same order, damaged ones or not.
class ShuffledRecords : public tensorflow::ResourceBase {
 public:
  ShuffledRecords(const std::string& path, int64_t seed, int64_t buffer, int64_t skip, bool tolerant)
      : file_(path), random_(static_cast<std::uint64_t>(seed)), buffer_(buffer), skip_(skip), tolerant_(tolerant) {}

  std::string DebugString() const override { return "a TFRecord file"; }

  // Returns why the file cannot be read any further, '' if it can.
  std::string Next(int64_t count, std::vector<tstring>* records, std::vector<std::string>* damaged) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tstring record;
    while (static_cast<int64_t>(records->size()) < count) {
      while (lost_.empty() && !is_read_ && static_cast<int64_t>(waiting_.size()) < buffer_) Read(damaged);
      if (!lost_.empty() || waiting_.empty()) break;
      Draw(&record);
      if (skip_ > 0) {
        --skip_;
      } else {
        records->push_back(std::move(record));
      }
    }
    return lost_;
  }

 private:
  void Draw(tstring* record) {
    tstring& drawn = waiting_[buffer_ > 1 ? random_() % waiting_.size() : 0];
    *record = std::move(drawn);
    if (&drawn != &waiting_.back()) drawn = std::move(waiting_.back());
    waiting_.pop_back();
  }

  void Read(std::vector<std::string>* damaged) {
    std::string_view record;
    const RecordFile::Found found = file_.Next(&record);
    if (found == RecordFile::Found::kRecord) {
      waiting_.emplace_back(record.data(), record.size());
    } else if (found == RecordFile::Found::kEnd) {
      is_read_ = true;
    } else if (found == RecordFile::Found::kDamaged && tolerant_) {
      damaged->push_back(file_.wrong());
    } else {
      lost_ = file_.wrong();
    }
  }

  std::mutex mutex_;
  RecordFile file_;
  std::mt19937_64 random_;  // the same numbers on every machine
  const int64_t buffer_;
  int64_t skip_;
  const bool tolerant_;
  bool is_read_ = false;
  std::string lost_;
  std::vector<tstring> waiting_;
};

class OpenRecordsOp : public OpKernel {
 public:
  explicit OpenRecordsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("tolerant", &tolerant_));
  }

  void Compute(OpKernelContext* context) override {
    for (int i = 0; i < 4; ++i) {
      OP_REQUIRES(context, context->input(i).dims() == 0, absl::InvalidArgumentError("scalars"));
    }
    const std::string path = context->input(0).scalar<tstring>()();
    const int64_t seed = context->input(1).scalar<int64_t>()(), buffer = context->input(2).scalar<int64_t>()();
    const int64_t skip = context->input(3).scalar<int64_t>()();
    OP_REQUIRES(context, buffer >= 1 && skip >= 0, absl::InvalidArgumentError("buffer is 1 or more, skip 0 or more"));
    Tensor* out = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &out));
    out->scalar<ResourceHandle>()() = ResourceHandle::MakeRefCountingHandle(
        new ShuffledRecords(path, seed, buffer, skip, tolerant_), context->device()->name());
  }

 private:
  bool tolerant_;
};

class NextRecordsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const auto handle = context->input(0).scalar<ResourceHandle>()();
    const auto file = handle.GetResource<ShuffledRecords>();
    OP_REQUIRES_OK(context, file.status());
    const int64_t count = context->input(1).scalar<int64_t>()();
    OP_REQUIRES(context, count >= 1, absl::InvalidArgumentError("count is 1 or more"));
    std::vector<tstring> records;
    std::vector<std::string> damaged;
    const std::string lost = (*file)->Next(count, &records, &damaged);
    Tensor *given = nullptr, *wrong = nullptr, *end = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {static_cast<int64_t>(records.size())}, &given));
    OP_REQUIRES_OK(context, context->allocate_output(1, {static_cast<int64_t>(damaged.size())}, &wrong));
    OP_REQUIRES_OK(context, context->allocate_output(2, {}, &end));
    end->scalar<tstring>()() = lost;
    for (std::size_t i = 0; i < records.size(); ++i) given->vec<tstring>()(i) = std::move(records[i]);
    for (std::size_t i = 0; i < damaged.size(); ++i) wrong->vec<tstring>()(i) = damaged[i];
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoOpenRecords").Device(tensorflow::DEVICE_CPU), OpenRecordsOp);
REGISTER_KERNEL_BUILDER(Name("AfoNextRecords").Device(tensorflow::DEVICE_CPU), NextRecordsOp);

}  // namespace
}  // namespace afo
