// Calls on a store: what operations of TensorFlow and messages of our own server have done there. The arguments are
// arrays of whoever asks, and are checked before anything changes.
//
// A call has attributes, which stay the same from step to step, and arguments. `numbers` are those of tables, `n` of
// them:
//
//  function        ints                             floats; texts             arguments -> results
//  lookup_rows     insert, numbers...                                         keys, splits -> values, rows
//  apply_rows      numbers...                                                 keys, splits, rows, counts, gradients,
//                                                                             schedule, step
//  pool_rows       insert, type of the sums, n,     norms...                  bags -> sums, rows
//                  numbers[n], tables of runs...
//  apply_pooled    n, numbers[n], tables of runs... norms...                  bags, rows, counts, gradients, schedule,
//                                                                             step
//  remove_rows     number                                                     keys -> removed
//  evict_rows      n, numbers[n], steps[n], rows[n] l2 weights[n]             step, oldest -> evicted
//  read_dense                                                                 -> weights
//  apply_dense                                                                gradient, schedule
//  move_dense                                                                 change
//  reset_dense                                                                weights
//  export_dense                                                               -> weights, slots, powers
//  import_dense                                                               weights, slots, powers
//  create_dense    size, slots                      options...; rule, names...
//  read_progress   types...                                                   splits -> step, positions, arrays...
//  advance                                                                    splits, positions, added... -> step
//  export_progress types...                                                   -> step, splits, positions, arrays...
//  import_progress                                                            step, splits, positions, arrays...
//  add_table       number, see `TableOptionsOf`
//  table_sizes     numbers...                                                 -> keys, bytes
//  begin_epoch     numbers...                                                 -> epochs, powers
//  clear_tables    numbers...
//  forget_removed  numbers...                                                 before
//  set_powers      numbers...                                                 powers
//
//  bags := keys, splits, samples, lengths, near, far, weights (see pooled_calls.cc)
//
// Keys and what belongs to them may be of more sets than there are numbers: the first ones are meant.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afo/core/failure.h"
#include "afo/core/message.h"
#include "afo/core/parallel.h"
#include "afo/core/store.h"

namespace afo {

// Numbers are part of messages: a new one comes last.
enum class Function : std::uint16_t {
  kLookupRows = 1,
  kApplyRows = 2,
  kPoolRows = 3,
  kApplyPooled = 4,
  kRemoveRows = 5,
  kEvictRows = 6,
  kReadDense = 7,
  kApplyDense = 8,
  kMoveDense = 9,
  kResetDense = 10,
  kExportDense = 11,
  kImportDense = 12,
  kCreateDense = 13,
  kReadProgress = 14,
  kAdvance = 15,
  kExportProgress = 16,
  kImportProgress = 17,
  kAddTable = 18,
  kTableSizes = 19,
  kBeginEpoch = 20,
  kClearTables = 21,
  kForgetRemoved = 22,
  kSetPowers = 23,
};
constexpr std::uint16_t kLastFunction = 23;

struct Call {
  Function function{};
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> texts;
};

// Whether a store that was not there before may begin by it.
bool BeginsStore(Function function);

// Where results go. Not thread-safe.
class Results {
 public:
  virtual ~Results() = default;
  // Memory of the next result, aligned for its type, which may be without elements; null: there is none.
  virtual char* Allocate(PartType type, std::span<const std::int64_t> dims) = 0;
};

// Does it. `arguments` and what `results` allocates stay where they are meanwhile. A failure changes nothing, but where
// memory for rows ends a part may be done: they are inserted one after another.
// Precondition: bytes of arguments are as types and dimensions say, and aligned for the type, as a message has them.
Failure Run(const Call& call, std::span<const MessagePart> arguments, Store* store, Results* results,
            const Parallel& parallel);

}  // namespace afo
