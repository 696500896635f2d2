// C functions of the desk for Python's ctypes (afo/ops/own_tables.py), which lets other threads run meanwhile.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "afo/core/desk.h"
#include "afo/core/table_blocks.h"

#define AFO_EXPORT extern "C" __attribute__((visibility("default")))

namespace afo {
namespace {

// What ctypes is given: bytes, and whom they belong to, for afo_desk_release.
struct Bytes {
  const char* data;
  std::int64_t size;
  std::string* owner;
};

Bytes Give(std::string content) {
  auto owner = std::make_unique<std::string>(std::move(content));
  return {.data = owner->data(), .size = static_cast<std::int64_t>(owner->size()), .owner = owner.release()};
}

// Returned in place of a number that is 0 or more, or of the cursor -1; `problem` has the words.
constexpr std::int64_t kDamaged = -2, kNoMemory = -3, kGone = -4, kWrong = -5;

std::int64_t Refuse(Failure failure, Bytes* problem) {
  *problem = Give(std::move(failure.words));
  if (failure.kind == FailureKind::kDamaged) return kDamaged;
  if (failure.kind == FailureKind::kNoMemory) return kNoMemory;
  return failure.kind == FailureKind::kMissing ? kGone : kWrong;
}

// Null, and why, where there is none. Tables never go while their store is there, and the request holds it.
Table* FindTable(std::int64_t request, std::int64_t number, Failure* failure) {
  const std::shared_ptr<DeskRequest> found = Desk::OfProcess().Find(request);
  if (found == nullptr) {
    *failure = {FailureKind::kMissing, "this request is answered already"};
    return nullptr;
  }
  // Beyond what a number of a table can be there is none, either.
  const auto wanted = static_cast<std::int32_t>(std::min<std::int64_t>(number, std::numeric_limits<std::int32_t>::max()));
  const FoundTables tables = found->store->FindTables({&wanted, 1});
  if (number >= 0 && !tables.missing.has_value()) return tables.tables.front();
  *failure = {FailureKind::kMissing, "there is no embedding table " + std::to_string(number) + " on this server"};
  return nullptr;
}

}  // namespace
}  // namespace afo

AFO_EXPORT void afo_desk_open() { afo::Desk::OfProcess().Open(); }

AFO_EXPORT void afo_desk_close() { afo::Desk::OfProcess().Close(); }

// The number of a request and its words; 0 if none came within so many milliseconds.
AFO_EXPORT std::int64_t afo_desk_take(std::int64_t longest_ms, afo::Bytes* words) {
  const auto request = afo::Desk::OfProcess().Take(std::chrono::milliseconds(longest_ms));
  if (request == nullptr) return 0;
  *words = afo::Give(request->words);
  return request->number;
}

AFO_EXPORT std::int64_t afo_desk_is_stopped(std::int64_t request) {
  const auto found = afo::Desk::OfProcess().Find(request);
  return found == nullptr || found->stopped ? 1 : 0;
}

AFO_EXPORT void afo_desk_answer(std::int64_t request, const char* bytes, std::int64_t size) {
  afo::Desk::OfProcess().Answer(request, std::string(bytes, static_cast<std::size_t>(size)));
}

// A block of a table and the cursor of the next one, -1 at the end.
AFO_EXPORT std::int64_t afo_desk_export(std::int64_t request, std::int64_t number, std::int64_t part,
                                        std::int64_t parts, std::int64_t bytes, std::int64_t since, std::int64_t cursor,
                                        afo::Bytes* block) {
  afo::Failure failure;
  const afo::Table* table = afo::FindTable(request, number, &failure);
  afo::NextBlock found;
  if (table != nullptr) {
    failure = afo::ExportBlock(*table, {.part = part, .parts = parts, .bytes = bytes, .since = since}, cursor, &found);
  }
  if (failure.happened()) return afo::Refuse(std::move(failure), block);
  *block = afo::Give(std::move(found.bytes));
  return found.next;
}

// How many rows of a block, whose keys are of the slots from `saved_first` up to `saved_end`, are here now.
AFO_EXPORT std::int64_t afo_desk_import(std::int64_t request, std::int64_t number, const char* block, std::int64_t size,
                                        std::int64_t weights_only, std::int64_t first_slot, std::int64_t end_slot,
                                        std::int64_t saved_first, std::int64_t saved_end, afo::Bytes* problem) {
  afo::Failure failure;
  afo::Table* table = afo::FindTable(request, number, &failure);
  std::int64_t rows = 0;
  if (table != nullptr) {
    failure = afo::ImportBlock(*table, {block, static_cast<std::size_t>(size)}, weights_only != 0,
                               {.first = first_slot, .end = end_slot}, {.first = saved_first, .end = saved_end}, &rows);
  }
  return failure.happened() ? afo::Refuse(std::move(failure), problem) : rows;
}

AFO_EXPORT void afo_desk_release(afo::Bytes* bytes) {
  delete bytes->owner;
  bytes->owner = nullptr;
}
