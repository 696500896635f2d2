// Serialized `tf.Example` messages to columns, all features at once.

#include "afo/core/example.h"

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/statusor.h"
#include "tensorflow/core/util/work_sharder.h"

namespace afo {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::OpOutputList;
using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::shape_inference::InferenceContext;

// records: [n]. fills: of each feature what stands for absent values, [width]. names, any_length, required: see
// ExampleColumn. values: of each feature [n, width].
REGISTER_OP("AfoParseExample")
    .Input("records: string")
    .Input("fills: types")
    .Attr("types: list({int64, float, string}) >= 1")
    .Attr("names: list(string) >= 1")
    .Attr("any_length: list(bool) >= 1")
    .Attr("required: list(bool) >= 1")
    .Output("values: types")
    .SetShapeFn([](InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle records, fill;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &records));
      for (int i = 0; i < c->num_outputs(); ++i) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(1 + i), 1, &fill));
        c->set_output(i, c->Matrix(c->Dim(records, 0), c->Dim(fill, 0)));
      }
      return absl::OkStatus();
    });

// Nanoseconds of a feature of a record: what the pool of threads cuts the work by.
constexpr int64_t kFeatureCost = 20;

std::string_view ViewOf(const tstring& text) { return {text.data(), text.size()}; }

// Strings on their way: the decoder's views, which become tensors of strings once the records are decoded.
class Strings {
 public:
  std::string_view* Views(int64_t size) { return all_.emplace_back(size).data(); }
  const std::string_view* Views(const Tensor& tensor) {
    std::string_view* views = Views(tensor.NumElements());
    for (int64_t i = 0; i < tensor.NumElements(); ++i) views[i] = ViewOf(tensor.flat<tstring>()(i));
    return views;
  }

 private:
  std::vector<std::vector<std::string_view>> all_;
};

// The columns of records, and decoders that know in which order these have their features. A graph's fills are the same
// in each call, so that one form serves them all.
class Form {
 public:
  Form(std::vector<ExampleColumn> columns, std::vector<Tensor> fills, Strings views)
      : columns_(std::move(columns)), fills_(std::move(fills)), views_(std::move(views)) {}

  const ExampleColumns& columns() const { return columns_; }

  // Whether these are its fills. It holds theirs, so that nothing else lies where they do.
  bool Has(const OpInputList& fills) const {
    for (int i = 0; i < fills.size(); ++i) {
      const Tensor& own = fills_[static_cast<std::size_t>(i)];
      if (fills[i].data() != own.data() || fills[i].shape() != own.shape()) return false;
    }
    return true;
  }

  // A decoder for the caller alone.
  std::unique_ptr<ExampleDecoder> Take(const std::vector<void*>& outputs) {
    std::unique_ptr<ExampleDecoder> taken;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        taken = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (taken == nullptr) return std::make_unique<ExampleDecoder>(columns_, outputs);
    taken->Restart(outputs);
    return taken;
  }

  void GiveBack(std::unique_ptr<ExampleDecoder> taken) {
    if (!taken->IsOfUse()) return;
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(taken));
  }

 private:
  const ExampleColumns columns_;
  const std::vector<Tensor> fills_;
  const Strings views_;  // of fills that are text
  std::mutex mutex_;
  std::vector<std::unique_ptr<ExampleDecoder>> idle_;
};

// The first record, by its number, that cannot be decoded.
class FirstWrong {
 public:
  void Note(int64_t record, const std::string& words) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (record_ >= 0 && record_ < record) return;
    record_ = record;
    words_ = words;
  }
  absl::Status status() const {
    if (record_ < 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("record ", record_, " of the batch: ", words_));
  }

 private:
  std::mutex mutex_;
  int64_t record_ = -1;
  std::string words_;
};

class ParseExampleOp : public OpKernel {
 public:
  explicit ParseExampleOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("types", &types_));
    OP_REQUIRES_OK(context, context->GetAttr("names", &names_));
    OP_REQUIRES_OK(context, context->GetAttr("any_length", &any_length_));
    OP_REQUIRES_OK(context, context->GetAttr("required", &required_));
    const std::size_t count = types_.size();
    OP_REQUIRES(context, names_.size() == count && any_length_.size() == count && required_.size() == count,
                absl::InvalidArgumentError("a name, any_length and required for each feature"));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& records = context->input(0);
    OP_REQUIRES(context, records.dims() == 1, absl::InvalidArgumentError("records are [n]"));
    const int64_t count = records.NumElements();
    OP_REQUIRES_VALUE(const std::shared_ptr<Form> form, context, FormOf(context));
    OP_REQUIRES_VALUE(Outputs outputs, context, Allocate(context, form->columns(), count));
    FirstWrong wrong;
    const auto texts = records.flat<tstring>();
    const auto body = [&](int64_t first, int64_t last) {
      std::unique_ptr<ExampleDecoder> decoder = form->Take(outputs.places);
      for (int64_t row = first; row < last; ++row) {
        const std::string words = decoder->Decode(ViewOf(texts(row)), row);
        if (!words.empty()) return wrong.Note(row, words);
      }
      form->GiveBack(std::move(decoder));
      Assign(outputs.places, outputs.tensors, first, last);
    };
    const auto threads = context->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(threads->num_threads, threads->workers, count,
                      kFeatureCost * static_cast<int64_t>(types_.size()), body);
    OP_REQUIRES_OK(context, wrong.status());
  }

 private:
  // Where the decoder writes, a column each.
  struct Outputs {
    std::vector<void*> places;
    std::vector<Tensor*> tensors;
    Strings strings;  // what of these is text
  };

  // That of the last call, if its fills were the same.
  absl::StatusOr<std::shared_ptr<Form>> FormOf(OpKernelContext* context) {
    OpInputList fills;
    TF_RETURN_IF_ERROR(context->input_list("fills", &fills));
    {
      const std::lock_guard lock(mutex_);
      if (form_ != nullptr && form_->Has(fills)) return form_;
    }
    TF_ASSIGN_OR_RETURN(std::shared_ptr<Form> made, MakeForm(fills));
    const std::lock_guard lock(mutex_);
    form_ = made;
    return made;
  }

  absl::StatusOr<std::shared_ptr<Form>> MakeForm(const OpInputList& fills) const {
    std::vector<ExampleColumn> columns;
    std::vector<Tensor> kept;
    Strings views;
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const Tensor& fill = kept.emplace_back(fills[static_cast<int>(i)]);
      if (fill.dims() != 1) return absl::InvalidArgumentError("fills are [width]");
      columns.push_back({.name = names_[i],
                         .kind = KindOf(types_[i]),
                         .width = fill.NumElements(),
                         .any_length = any_length_[i],
                         .required = required_[i],
                         .fill = types_[i] == tensorflow::DT_STRING ? views.Views(fill) : fill.data()});
    }
    return std::make_shared<Form>(std::move(columns), std::move(kept), std::move(views));
  }

  absl::StatusOr<Outputs> Allocate(OpKernelContext* context, const ExampleColumns& columns, int64_t records) const {
    Outputs outputs;
    OpOutputList values;
    TF_RETURN_IF_ERROR(context->output_list("values", &values));
    for (const ExampleColumn& column : columns.all()) {
      Tensor* out = nullptr;
      TF_RETURN_IF_ERROR(values.allocate(static_cast<int>(outputs.tensors.size()), {records, column.width}, &out));
      outputs.tensors.push_back(out);
      const bool is_text = column.kind == ListKind::kBytes;
      outputs.places.push_back(is_text ? outputs.strings.Views(records * column.width) : out->data());
    }
    return outputs;
  }

  // Strings of these rows, while their records are in the cache.
  static void Assign(const std::vector<void*>& outputs, const std::vector<Tensor*>& tensors, int64_t first,
                     int64_t last) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i]->dtype() != tensorflow::DT_STRING) continue;
      const auto* views = static_cast<const std::string_view*>(outputs[i]);
      auto texts = tensors[i]->flat<tstring>();
      const int64_t width = tensors[i]->dim_size(1);
      for (int64_t at = first * width; at < last * width; ++at) texts(at).assign(views[at].data(), views[at].size());
    }
  }

  static ListKind KindOf(tensorflow::DataType type) {
    return type == tensorflow::DT_STRING  ? ListKind::kBytes
           : type == tensorflow::DT_FLOAT ? ListKind::kFloat
                                          : ListKind::kInt64;
  }

  tensorflow::DataTypeVector types_;
  std::vector<std::string> names_;
  std::vector<bool> any_length_;
  std::vector<bool> required_;
  std::mutex mutex_;
  std::shared_ptr<Form> form_;
};

REGISTER_KERNEL_BUILDER(Name("AfoParseExample").Device(tensorflow::DEVICE_CPU), ParseExampleOp);

}  // namespace
}  // namespace afo
