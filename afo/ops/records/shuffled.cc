#include "afo/ops/records/shuffled.h"

#include <string_view>
#include <utility>

namespace afo {

using tensorflow::tstring;

RecordBlock ShuffledRecords::Next(std::int64_t count, const std::atomic<bool>& stop) {
  RecordBlock block;
  tstring record;
  while (static_cast<std::int64_t>(block.records.size()) < count && !stop) {
    while (lost_.empty() && !is_read_ && static_cast<std::int64_t>(waiting_.size()) < buffer_) Read(&block);
    if (!lost_.empty() || waiting_.empty()) break;
    Draw(&record);
    if (skip_ > 0) {
      --skip_;
    } else {
      block.records.push_back(std::move(record));
    }
  }
  block.lost = lost_;
  return block;
}

void ShuffledRecords::Draw(tstring* record) {
  tstring& drawn = waiting_[buffer_ > 1 ? random_() % waiting_.size() : 0];
  *record = std::move(drawn);
  if (&drawn != &waiting_.back()) drawn = std::move(waiting_.back());
  waiting_.pop_back();
}

void ShuffledRecords::Read(RecordBlock* block) {
  std::string_view record;
  const RecordFile::Found found = file_.Next(&record);
  if (found == RecordFile::Found::kRecord) {
    waiting_.emplace_back(record.data(), record.size());
  } else if (found == RecordFile::Found::kEnd) {
    is_read_ = true;
  } else if (found == RecordFile::Found::kDamaged && tolerant_) {
    block->damaged.push_back(file_.wrong());
  } else {
    lost_ = file_.wrong();
  }
}

}  // namespace afo
