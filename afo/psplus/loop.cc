#include "afo/psplus/loop.h"

#include <asio/post.hpp>
#include <system_error>
#include <utility>

#include "afo/psplus/tls.h"

namespace afo::psplus {
namespace {

constexpr std::size_t kKeptBlocks = 8;

}  // namespace

Loop::Loop()
    : context_(1),
      work_(asio::make_work_guard(context_)),
      received_(new char[kBlockBytes]),
      record_(new char[kTlsRecord]) {}

bool Loop::Start() {
  try {
    thread_ = std::thread([this] { context_.run(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void Loop::Post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (!drained_) asio::post(context_, std::move(work));
}

void Loop::Drain() {
  {
    std::lock_guard lock(mutex_);
    drained_ = true;
  }
  work_.reset();
  if (thread_.joinable()) thread_.join();
  context_.restart();
  context_.run();
}

std::unique_ptr<char[]> Loop::TakeBlock() {
  if (blocks_.empty()) return std::unique_ptr<char[]>(new char[kBlockBytes]);
  std::unique_ptr<char[]> block = std::move(blocks_.back());
  blocks_.pop_back();
  return block;
}

void Loop::GiveBlock(std::unique_ptr<char[]> block) {
  if (blocks_.size() < kKeptBlocks) blocks_.push_back(std::move(block));
}

}  // namespace afo::psplus
