// Progress in the store: the step, positions of splits, and the model's own state.

#include <cstring>
#include <vector>

#include "afo/core/call_context.h"
#include "afo/core/progress.h"

namespace afo {
namespace {

void Positions(CallContext* context, const std::vector<Position>& positions) {
  const auto count = static_cast<std::int64_t>(positions.size());
  std::int64_t* to = context->Result<std::int64_t>({count, 3});
  if (to != nullptr && count > 0) std::memcpy(to, positions.data(), positions.size() * sizeof(Position));
}

// The model's state, of the types that the rest of the attributes names.
void Arrays(CallContext* context, const std::vector<StateArray>& arrays) {
  const std::vector<std::int64_t> types = context->RestOfInts();
  bool fits = arrays.size() == types.size();
  for (std::size_t i = 0; fits && i < arrays.size(); ++i) fits = static_cast<std::int64_t>(arrays[i].type) == types[i];
  if (!fits) {
    return context->Fail(
        {FailureKind::kMissing, std::to_string(types.size()) +
                                    " arrays of the model's state were asked for, and this server has " +
                                    std::to_string(arrays.size()) + ", or of other types"});
  }
  for (const StateArray& array : arrays) {
    char* to = context->Allocate(array.type, array.dims);
    if (to != nullptr && !array.bytes.empty()) std::memcpy(to, array.bytes.data(), array.bytes.size());
  }
}

// Copies, for alignment and types are the caller's.
std::vector<Position> PositionsOf(CallContext* context, std::size_t number, std::size_t splits) {
  const auto given = context->Shaped<std::int64_t>(number, "positions", {static_cast<std::int64_t>(splits), 3});
  std::vector<Position> found(splits);
  if (!context->failure.happened() && splits > 0) {
    std::memcpy(static_cast<void*>(found.data()), given.data(), splits * sizeof(Position));
  }
  return found;
}

// The arguments from `first` on.
std::span<const MessagePart> ArraysOf(const CallContext& context, std::size_t first) {
  const auto all = context.arguments();
  return all.subspan(std::min(first, all.size()));
}

}  // namespace

void ReadProgressCall(CallContext* context) {
  const auto splits = context->Vector<std::int64_t>(0, "splits");
  if (context->failure.happened()) return;
  const ReadProgress read = context->store().progress().Read(splits);
  if (!read.wrong.empty()) return context->Fail(Invalid(read.wrong));
  context->ScalarResult(read.state.step);
  Positions(context, read.state.positions);
  Arrays(context, read.state.arrays);
}

void Advance(CallContext* context) {
  const auto splits = context->Vector<std::int64_t>(0, "splits");
  const std::vector<Position> positions = PositionsOf(context, 1, splits.size());
  // Before the step is done: who is told that there is no memory may send it again.
  std::int64_t* step = context->Result<std::int64_t>({});
  if (step == nullptr) return;
  const AdvancedStep advanced = context->store().progress().Advance(splits, positions, ArraysOf(*context, 2));
  if (!advanced.wrong.empty()) return context->Fail(Invalid(advanced.wrong));
  *step = advanced.step;
}

void ExportProgress(CallContext* context) {
  const ProgressState state = context->store().progress().Export();
  context->ScalarResult(state.step);
  std::int64_t* splits = context->Result<std::int64_t>({static_cast<std::int64_t>(state.splits.size())});
  if (splits != nullptr) std::copy(state.splits.begin(), state.splits.end(), splits);
  Positions(context, state.positions);
  Arrays(context, state.arrays);
}

void ImportProgress(CallContext* context) {
  const auto step = context->Shaped<std::int64_t>(0, "step", {});
  const auto splits = context->Vector<std::int64_t>(1, "splits");
  const std::vector<Position> positions = PositionsOf(context, 2, splits.size());
  if (context->failure.happened()) return;
  std::string wrong = context->store().progress().Import(step.front(), splits, positions, ArraysOf(*context, 3));
  if (!wrong.empty()) context->Fail(Invalid(std::move(wrong)));
}

}  // namespace afo
