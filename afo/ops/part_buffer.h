// A tensor that lies in a message.
#pragma once

#include <cstdint>
#include <utility>

#include "afo/core/message.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace afo {

// A part of a message that `Owner` holds, for as long as the part is used. Nobody writes to it: its bytes are not its
// own.
template <typename Owner>
class PartBuffer : public tensorflow::TensorBuffer {
 public:
  PartBuffer(Owner owner, const MessagePart& part)
      : TensorBuffer(const_cast<char*>(part.data)), owner_(std::move(owner)), bytes_(part.bytes) {}

  std::size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* to) const override {
    to->set_requested_bytes(static_cast<std::int64_t>(bytes_));
  }
  bool OwnsMemory() const override { return false; }

 private:
  const Owner owner_;
  const std::size_t bytes_;
};

}  // namespace afo
