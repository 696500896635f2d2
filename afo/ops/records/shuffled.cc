#include "afo/ops/records/shuffled.h"

#include <utility>

namespace afo {

using tensorflow::tstring;

RecordBlock ShuffledRecords::Next(std::int64_t count, const std::atomic<bool>& stop) {
  RecordBlock block;
  while (static_cast<std::int64_t>(block.records.size()) < count && !stop) {
    while (lost_.empty() && !is_read_ && static_cast<std::int64_t>(waiting_.size()) < buffer_) {
      if (std::optional<std::string> damaged = Read()) block.damaged.push_back(*std::move(damaged));
    }
    if (!lost_.empty() || waiting_.empty()) break;
    tstring record = Draw();
    if (skip_ > 0) {
      --skip_;
    } else {
      block.records.push_back(std::move(record));
    }
  }
  block.lost = lost_;
  return block;
}

tstring ShuffledRecords::Draw() {
  tstring& drawn = waiting_[buffer_ > 1 ? random_() % waiting_.size() : 0];
  tstring record = std::move(drawn);
  if (&drawn != &waiting_.back()) drawn = std::move(waiting_.back());
  waiting_.pop_back();
  return record;
}

std::optional<std::string> ShuffledRecords::Read() {
  const auto [found, record] = file_.Next();
  if (found == RecordFile::Found::kRecord) {
    waiting_.emplace_back(record.data(), record.size());
  } else if (found == RecordFile::Found::kEnd) {
    is_read_ = true;
  } else if (found == RecordFile::Found::kDamaged && tolerant_) {
    return file_.wrong();
  } else {
    lost_ = file_.wrong();
  }
  return std::nullopt;
}

}  // namespace afo
