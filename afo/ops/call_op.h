// Kernels that have a store do what a function of afo/core/calls.h says: attributes and tensors of an operation as
// those of a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "afo/core/calls.h"
#include "afo/ops/part_types.h"
#include "afo/ops/resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace afo {

absl::Status StatusOf(Failure failure);

// Reads attributes of an operation into those of a call.
class Attributes {
 public:
  Attributes(tensorflow::OpKernelConstruction* context, Call* call) : context_(context), call_(call) {}

  Attributes& Int(const char* name);
  Attributes& Bool(const char* name);
  Attributes& Type(const char* name);
  Attributes& Ints(const char* name);
  // Their number before them.
  Attributes& CountedInts(const char* name);
  Attributes& Types(const char* name);
  // How many floats there are.
  Attributes& Count(const char* name);
  Attributes& Float(const char* name);
  Attributes& Floats(const char* name);
  Attributes& Text(const char* name);
  Attributes& Texts(const char* name);
  void Fail(absl::Status status) { context_->CtxFailure(status); }

 private:
  template <typename T>
  T Get(const char* name) {
    T value{};
    const absl::Status status = context_->GetAttr(name, &value);
    if (!status.ok()) context_->CtxFailure(status);
    return value;
  }
  void Add(tensorflow::DataType type);

  tensorflow::OpKernelConstruction* const context_;
  Call* const call_;
};

// A kernel of one call. Input 0 is the resource, the others are the arguments, and the outputs the results.
class CallOp : public tensorflow::OpKernel {
 public:
  CallOp(tensorflow::OpKernelConstruction* context, Function function, void (*read)(Attributes*));

  void Compute(tensorflow::OpKernelContext* context) override;

 private:
  Call call_;
};

template <Function kFunction, void (*kRead)(Attributes*)>
class CallOpOf : public CallOp {
 public:
  explicit CallOpOf(tensorflow::OpKernelConstruction* context) : CallOp(context, kFunction, kRead) {}
};

inline void NoAttributes(Attributes*) {}
inline void Numbers(Attributes* attributes) { attributes->Ints("numbers"); }

}  // namespace afo
