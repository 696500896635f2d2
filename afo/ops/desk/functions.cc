// C functions of the desk for Python's ctypes (afo/ops/own_tables.py), which lets other threads run meanwhile.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "afo/ops/desk/desk.h"
#include "afo/ops/snapshot/blocks.h"

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

std::int64_t Refuse(const absl::Status& status, Bytes* problem) {
  *problem = Give(std::string(status.message()));
  if (absl::IsDataLoss(status)) return kDamaged;
  if (absl::IsResourceExhausted(status)) return kNoMemory;
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ? kGone : kWrong;
}

absl::StatusOr<Table*> FindTable(std::int64_t request, std::int64_t number) {
  const std::shared_ptr<DeskRequest> found = Desk::OfProcess().Find(request);
  if (found == nullptr) return absl::NotFoundError("this request is answered already");
  if (number < 0 || number > std::numeric_limits<std::int32_t>::max()) {
    return absl::FailedPreconditionError("there is no embedding table of this number");
  }
  // Tables never go while their resource is there, and the caller has a request that holds it.
  const auto tables = found->tables->Find({static_cast<std::int32_t>(number)});
  if (!tables.ok()) return tables.status();
  return tables->front();
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
                                        std::int64_t parts, std::int64_t bytes, std::int64_t since,
                                        std::int64_t cursor, afo::Bytes* block) {
  const auto table = afo::FindTable(request, number);
  if (!table.ok()) return afo::Refuse(table.status(), block);
  auto found =
      afo::ExportBlock(**table, {.part = part, .parts = parts, .bytes = bytes, .since = since}, cursor);
  if (!found.ok()) return afo::Refuse(found.status(), block);
  *block = afo::Give(std::move(found->bytes));
  return found->next;
}

// How many rows of a block, whose keys are of the slots from `saved_first` up to `saved_end`, are here now.
AFO_EXPORT std::int64_t afo_desk_import(std::int64_t request, std::int64_t number, const char* block, std::int64_t size,
                                        std::int64_t weights_only, std::int64_t first_slot, std::int64_t end_slot,
                                        std::int64_t saved_first, std::int64_t saved_end, afo::Bytes* problem) {
  const auto table = afo::FindTable(request, number);
  if (!table.ok()) return afo::Refuse(table.status(), problem);
  const std::string_view bytes(block, static_cast<std::size_t>(size));
  const auto rows = afo::ImportBlock(**table, bytes, weights_only != 0, {.first = first_slot, .end = end_slot},
                                     {.first = saved_first, .end = saved_end});
  return rows.ok() ? *rows : afo::Refuse(rows.status(), problem);
}

AFO_EXPORT void afo_desk_release(afo::Bytes* bytes) {
  delete bytes->owner;
  bytes->owner = nullptr;
}
