// Tables to a checkpoint and back: blocks of rows as strings, which Python only moves.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "afo/ops/resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace afo {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

absl::Status TwoVectors(InferenceContext* c) {
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

// Changes from now on are of a new epoch. powers: how many updates each table has had.
REGISTER_OP("AfoBeginEpoch")
    .Input("tables: resource")
    .Attr("numbers: list(int) >= 1")
    .Output("epochs: int64")
    .Output("powers: int64")
    .SetIsStateful()
    .SetShapeFn(TwoVectors);

// A block of a table's rows, of shards `part`, `part` + `parts` and so on, of at most `most` rows. cursor: 0, then what
// the last call returned, until that is -1. since: an epoch, or -1 for all rows. Inputs and no attributes, so that a
// client has one function for all tables of a server: a server keeps every function that it is sent.
REGISTER_OP("AfoExportBlock")
    .Input("tables: resource")
    .Input("number: int64")
    .Input("part: int64")
    .Input("parts: int64")
    .Input("most: int64")
    .Input("cursor: int64")
    .Input("since: int64")
    .Output("block: string")
    .Output("next: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Scalar());
      return absl::OkStatus();
    });

// Removes and overwrites what a block names, where server `server` of `servers` owns it. weights_only: the block has no
// slots; they begin as those of a new row with these weights.
REGISTER_OP("AfoImportBlock")
    .Input("tables: resource")
    .Input("number: int64")
    .Input("block: string")
    .Input("weights_only: bool")
    .Attr("server: int >= 0")
    .Attr("servers: int >= 1")
    .Output("rows: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

REGISTER_OP("AfoClearTables")
    .Input("tables: resource")
    .Attr("numbers: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("AfoForgetRemoved")
    .Input("tables: resource")
    .Input("before: int64")
    .Attr("numbers: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

REGISTER_OP("AfoSetPowers")
    .Input("tables: resource")
    .Input("powers: int64")
    .Attr("numbers: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

int64_t Number(OpKernelContext* context, int input) { return context->input(input).scalar<int64_t>()(); }

// What the kernels here have in common: some tables of the resource, by the attribute `numbers` or the input `number`.
class TablesOp : public OpKernel {
 public:
  explicit TablesOp(OpKernelConstruction* context) : OpKernel(context) {
    if (context->HasAttr("numbers")) OP_REQUIRES_OK(context, context->GetAttr("numbers", &numbers_));
  }

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<EmbeddingTables> tables;
    OP_REQUIRES_OK(context,
                   tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), &tables));
    const std::vector<int32_t> one{numbers_.empty() ? static_cast<int32_t>(Number(context, 1)) : 0};
    OP_REQUIRES_VALUE(const std::vector<Table*> found, context, tables->Find(numbers_.empty() ? one : numbers_));
    OP_REQUIRES_OK(context, Run(context, found));
  }

 protected:
  virtual absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) = 0;

  absl::Status CheckOnePerTable(const Tensor& tensor) const {
    if (tensor.NumElements() == static_cast<int64_t>(numbers_.size())) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a number for each of ", numbers_.size(), " tables"));
  }

 private:
  std::vector<int32_t> numbers_;
};

class BeginEpochOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) override {
    Tensor *epochs = nullptr, *powers = nullptr;
    const auto count = static_cast<int64_t>(tables.size());
    TF_RETURN_IF_ERROR(context->allocate_output(0, {count}, &epochs));
    TF_RETURN_IF_ERROR(context->allocate_output(1, {count}, &powers));
    for (int64_t i = 0; i < count; ++i) {
      powers->vec<int64_t>()(i) = static_cast<int64_t>(tables[i]->powers());
      epochs->vec<int64_t>()(i) = static_cast<int64_t>(tables[i]->BeginEpoch());
    }
    return absl::OkStatus();
  }
};

class ExportBlockOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  // The cursor holds how many of the part's shards are done, and the row of the next, in 32 bits each. All candidates of
  // the part (or cells of their filter) come first, then all rows: a key that is admitted in between is in the checkpoint
  // twice, and not lost.
  absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) override {
    const Table& table = *tables[0];
    const int64_t part = Number(context, 2), parts = Number(context, 3), most = Number(context, 4);
    const int64_t cursor = Number(context, 5), since = Number(context, 6);
    if (part < 0 || parts < 1 || most < 1 || most > kMostRows || cursor < 0 || since < -1) {
      return absl::InvalidArgumentError("part, parts, most, cursor or since of an export is out of its range");
    }
    const int64_t shards = (table.shards() - part + parts - 1) / parts;
    RowBlock block;
    int64_t done = cursor >> 32;
    auto row = static_cast<std::uint32_t>(cursor);
    for (; done < 2 * shards; ++done, row = 0) {
      if (done == shards && !block.empty()) break;
      const ExportRange range{.shard = static_cast<std::int32_t>(part + done % shards * parts),
                              .first = row,
                              .most = static_cast<std::uint32_t>(most),
                              .since = since};
      Exported exported = done < shards ? ExportAdmission(table, range, std::move(block))
                                        : ExportRows(table, range, std::move(block));
      block = std::move(exported.block);
      if (exported.next.has_value()) {
        row = *exported.next;
        break;
      }
    }
    Tensor *bytes = nullptr, *next = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &bytes));
    TF_RETURN_IF_ERROR(context->allocate_output(1, {}, &next));
    next->scalar<int64_t>()() = done >= 2 * shards ? -1 : (done << 32 | row);
    if (!block.empty()) bytes->scalar<tensorflow::tstring>()() = Encode(block);
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kMostRows = 1 << 28;
  static constexpr int64_t kMostBytes = 4 << 20;

  // What a shard's filter of keys knows. Cells are so large that bytes limit a block of them.
  static Exported ExportAdmission(const Table& table, ExportRange range, RowBlock block) {
    if (!table.options().admission.blooms()) return table.ExportCandidates(range, std::move(block));
    range.most = static_cast<std::uint32_t>(std::max<int64_t>(1, kMostBytes / table.cell_bytes()));
    return table.ExportCells(range, std::move(block));
  }

  // Of a shard's rows, behind what was removed of it.
  static Exported ExportRows(const Table& table, const ExportRange& range, RowBlock block) {
    const bool is_delta = range.since != kAllEpochs;
    if (range.first == 0 && is_delta) block = table.ExportRemoved(range.shard, range.since, std::move(block));
    return table.Export(range, std::move(block));
  }
};

absl::Status StatusOfBlock(BlockError error) {
  switch (error) {
    case BlockError::kNone:
      return absl::OkStatus();
    case BlockError::kShort:
      return absl::DataLossError("a block of rows is cut off");
    case BlockError::kNoBlock:
      return absl::DataLossError("these bytes are no block of rows");
    case BlockError::kBadSum:
      return absl::DataLossError("a block of rows has another checksum than it says");
    case BlockError::kOtherWidth:
      return absl::FailedPreconditionError("a block's rows have another width, or another optimizer, than the table's");
  }
  return absl::InternalError("unknown error of a block");
}

class ImportBlockOp : public TablesOp {
 public:
  explicit ImportBlockOp(OpKernelConstruction* context) : TablesOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("server", &server_));
    OP_REQUIRES_OK(context, context->GetAttr("servers", &servers_));
  }

 protected:
  absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) override {
    const tensorflow::tstring& bytes = context->input(2).scalar<tensorflow::tstring>()();
    const bool weights_only = context->input(3).scalar<bool>()();
    const RowLayout& layout = tables[0]->layout();
    const auto floats = static_cast<std::uint32_t>(weights_only ? layout.dim : layout.floats);
    const DecodedBlock decoded = Decode({bytes.data(), bytes.size()}, floats);
    TF_RETURN_IF_ERROR(StatusOfBlock(decoded.error));
    if (decoded.bytes != bytes.size()) return absl::DataLossError("there are bytes behind a block of rows");
    Tensor* rows = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &rows));
    const std::optional<int64_t> imported = tables[0]->Import(decoded.block, server_, servers_);
    if (!imported.has_value()) return StatusOf(Status::kOutOfMemory);
    rows->scalar<int64_t>()() = *imported;
    return absl::OkStatus();
  }

 private:
  int server_, servers_;
};

class ClearTablesOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  absl::Status Run(OpKernelContext*, const std::vector<Table*>& tables) override {
    for (Table* table : tables) table->Clear();
    return absl::OkStatus();
  }
};

class ForgetRemovedOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) override {
    const Tensor& before = context->input(1);
    TF_RETURN_IF_ERROR(CheckOnePerTable(before));
    for (std::size_t i = 0; i < tables.size(); ++i) {
      tables[i]->ForgetRemoved(static_cast<std::uint64_t>(std::max<int64_t>(before.flat<int64_t>()(i), 0)));
    }
    return absl::OkStatus();
  }
};

class SetPowersOp : public TablesOp {
 public:
  using TablesOp::TablesOp;

 protected:
  absl::Status Run(OpKernelContext* context, const std::vector<Table*>& tables) override {
    const Tensor& powers = context->input(1);
    TF_RETURN_IF_ERROR(CheckOnePerTable(powers));
    for (std::size_t i = 0; i < tables.size(); ++i) {
      tables[i]->set_powers(static_cast<std::uint64_t>(std::max<int64_t>(powers.flat<int64_t>()(i), 0)));
    }
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("AfoBeginEpoch").Device(tensorflow::DEVICE_CPU), BeginEpochOp);
REGISTER_KERNEL_BUILDER(Name("AfoExportBlock").Device(tensorflow::DEVICE_CPU), ExportBlockOp);
REGISTER_KERNEL_BUILDER(Name("AfoImportBlock").Device(tensorflow::DEVICE_CPU), ImportBlockOp);
REGISTER_KERNEL_BUILDER(Name("AfoClearTables").Device(tensorflow::DEVICE_CPU), ClearTablesOp);
REGISTER_KERNEL_BUILDER(Name("AfoForgetRemoved").Device(tensorflow::DEVICE_CPU), ForgetRemovedOp);
REGISTER_KERNEL_BUILDER(Name("AfoSetPowers").Device(tensorflow::DEVICE_CPU), SetPowersOp);

}  // namespace
}  // namespace afo
