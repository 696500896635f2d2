#include "afo/core/calls.h"

#include <array>
#include <new>

#include "afo/core/call_context.h"

namespace afo {
namespace {

struct FunctionInfo {
  void (*run)(CallContext*);
  bool begins_store = false;
};

// By number, from 1.
constexpr std::array<FunctionInfo, kLastFunction> kFunctions{{
    {LookupRows},
    {ApplyRowGradients},
    {PoolRows},
    {ApplyPooled},
    {RemoveRows},
    {EvictRows},
    {ReadDense},
    {ApplyDense},
    {MoveDense},
    {ResetDense},
    {ExportDense},
    {ImportDense},
    {CreateDense, true},
    {ReadProgressCall},
    {Advance},
    {ExportProgress},
    {ImportProgress, true},
    {AddTable, true},
    {TableSizes},
    {BeginEpoch},
    {ClearTables},
    {ForgetRemoved},
    {SetPowers},
}};

const FunctionInfo* InfoOf(Function function) {
  const auto number = static_cast<std::uint16_t>(function);
  return number < 1 || number > kLastFunction ? nullptr : &kFunctions[number - 1];
}

}  // namespace

bool BeginsStore(Function function) {
  const FunctionInfo* info = InfoOf(function);
  return info != nullptr && info->begins_store;
}

Failure Run(const Call& call, std::span<const MessagePart> arguments, Store* store, Results* results,
            const Parallel& parallel) {
  const FunctionInfo* info = InfoOf(call.function);
  if (info == nullptr) return Invalid("there is no function " + std::to_string(static_cast<int>(call.function)));
  CallContext context(call, arguments, store, results, parallel);
  try {
    info->run(&context);
  } catch (const std::bad_alloc&) {
    return NoMemory("no memory is left to do what a call asks for");
  }
  return std::move(context.failure);
}

}  // namespace afo
