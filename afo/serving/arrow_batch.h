// Batches of Arrow's C data interface, answered in the same form.
#pragma once

#include "absl/status/status.h"
#include "afo/core/arrow_abi.h"
#include "afo/serving/served_model.h"

namespace afo {

// Releases what it was given, whatever becomes of it; null, or released before, is nothing.
template <typename Struct>
class ReleasedAtEnd {
 public:
  explicit ReleasedAtEnd(Struct* given) : given_(given) {}
  ReleasedAtEnd(const ReleasedAtEnd&) = delete;
  ~ReleasedAtEnd() {
    if (holds()) given_->release(given_);
  }

  bool holds() const { return given_ != nullptr && given_->release != nullptr; }
  const Struct& operator*() const { return *given_; }

 private:
  Struct* const given_;
};

// Asks `signature`, null: `predict`, for the rows of a batch. InvalidArgument where it does not fit: the error names
// the column. The answer is written where the status is OK.
absl::Status AnswerArrowBatch(const ServedModel& model, const char* signature, const ArrowSchema& schema,
                              const ArrowArray& batch, ArrowSchema* answer_schema, ArrowArray* answer);

}  // namespace afo
