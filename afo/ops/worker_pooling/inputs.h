// What AfoPool and its gradients have in common: the features' bags, and where each table begins in the answers.
#pragma once

#include <vector>

#include "afo/core/pooling.h"
#include "afo/core/unique.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/statusor.h"

namespace afo {

class PoolBase : public tensorflow::OpKernel {
 public:
  explicit PoolBase(tensorflow::OpKernelConstruction* context);

 protected:
  struct Inputs {
    tensorflow::OpInputList values, splits;
    tensorflow::OpInputList gradients;  // of `ReadWithGradients`
    std::vector<Bags> bags;
    std::vector<int64_t> ids;  // how many, [runs]
    // [tables][servers]: the floats of a server's answer before a table, and its rows.
    std::vector<std::vector<int64_t>> floats_before, rows;
    // Of one output for all: its rows and columns, and where each run's columns begin.
    int64_t joined_rows = 0, joined_columns = 0;
    std::vector<int64_t> first_column;
  };

  bool joined() const { return outputs_ != runs_; }
  // Which output a run is in, and where it begins there.
  int OutputOf(int run) const { return joined() ? 0 : run; }
  int64_t ColumnOf(const Inputs& in, int run) const { return joined() ? in.first_column[run] : 0; }

  // All inputs, checked: whatever a graph brings, nothing outside of an answer is read or written.
  absl::StatusOr<Inputs> Read(tensorflow::OpKernelContext* context) const;
  absl::StatusOr<Inputs> ReadWithGradients(tensorflow::OpKernelContext* context) const;

  template <typename Float>
  TableRows<Float> RowsOf(const Inputs& in, int table, const std::vector<Float*>& answers) const {
    TableRows<Float> rows;
    rows.shift = PlaceShift(servers_);
    rows.dim = dims_[table];
    for (int server = 0; server < servers_; ++server) {
      rows.first.push_back(answers[server] + in.floats_before[table][server]);
    }
    return rows;
  }

  static std::vector<const float*> Answers(const Inputs& in);

  int runs_;
  int outputs_;
  int servers_;
  std::vector<int32_t> run_tables_, dims_, combiners_;
  std::vector<float> max_norms_;
  // Of each run which input its bags and its weights are; -1: none.
  std::vector<int> bag_of_, weights_of_;

 private:
  // Of each run the number of its input, or -1.
  absl::StatusOr<std::vector<int>> ReadRuns(tensorflow::OpKernelConstruction* context, const char* names,
                                            const char* number) const;
  // Steps of `Read`: each fills in what it is named for.
  absl::Status ReadAnswers(Inputs* in) const;
  absl::Status ReadIds(const tensorflow::Tensor& places, const tensorflow::Tensor& lengths, Inputs* in) const;
  absl::Status CheckPlaces(const Inputs& in, int run) const;
  // Has all runs share the rows of one output.
  absl::Status Join(Inputs* in) const;
};

}  // namespace afo
