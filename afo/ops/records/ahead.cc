#include "afo/ops/records/ahead.h"

#include <utility>

namespace afo {
namespace {

bool IsLast(const RecordBlock& block) { return block.records.empty() || !block.lost.empty(); }

}  // namespace

BlocksAhead::BlocksAhead(std::unique_ptr<ShuffledRecords> records, std::int64_t size)
    : records_(std::move(records)), size_(size) {
  thread_.reset(tensorflow::Env::Default()->StartThread({}, "afo_records", [this] { Read(); }));
}

BlocksAhead::~BlocksAhead() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

RecordBlock BlocksAhead::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return ready_.has_value(); });
  if (IsLast(*ready_)) return *ready_;
  RecordBlock block = std::move(*ready_);
  ready_.reset();
  lock.unlock();
  changed_.notify_all();
  return block;
}

void BlocksAhead::Read() {
  for (bool is_last = false; !is_last && !stop_;) {
    RecordBlock block = records_->Next(size_, stop_);
    is_last = IsLast(block);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !ready_.has_value(); });
    ready_ = std::move(block);
    lock.unlock();
    changed_.notify_all();
  }
}

}  // namespace afo
