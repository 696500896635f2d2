// Blocks of records, the next of which is read by a thread of its own while the caller works on the last.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "afo/ops/records/shuffled.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/platform/env.h"

namespace afo {

class BlocksAhead : public tensorflow::ResourceBase {
 public:
  // Blocks of `size` records.
  BlocksAhead(std::unique_ptr<ShuffledRecords> records, std::int64_t size);
  ~BlocksAhead() override;

  std::string DebugString() const override { return "a TFRecord file"; }

  // The next block; the last one, which is lost or has no records, again and again.
  RecordBlock Next();

 private:
  void Read();

  std::unique_ptr<ShuffledRecords> records_;  // the thread's
  const std::int64_t size_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RecordBlock> ready_;
  std::unique_ptr<tensorflow::Thread> thread_;  // goes first
};

}  // namespace afo
