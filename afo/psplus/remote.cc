#include "afo/psplus/remote.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace afo::psplus {
namespace {

using std::chrono::milliseconds;

// How often deadlines are looked at.
constexpr milliseconds kTick{25};

}  // namespace

Remote::Remote(std::shared_ptr<ClientCore> core, std::shared_ptr<Loop> loop, std::string address, HostPort place)
    : core_(std::move(core)),
      loop_(std::move(loop)),
      address_(std::move(address)),
      place_(std::move(place)),
      pause_(core_->options.first_pause),
      random_(static_cast<std::uint32_t>(RandomBits())),
      socket_(loop_->context()),
      resolver_(loop_->context()),
      tick_(loop_->context()),
      back_off_(loop_->context()) {}

// The number is drawn where the question is put into its order.
std::uint64_t Remote::Ask(Question question, Done done) {
  Failure failure;
  std::uint64_t sequence = 0;
  bool wakes = false;
  {
    std::lock_guard lock(mutex_);
    const std::size_t bytes = question.payload.bytes();
    failure = ended_ ? end_ : Refusal(bytes);
    if (failure.code == Code::kOk) {
      sequence = ++core_->sequences;
      const auto deadline = Clock::now() + question.deadline;
      new_.emplace_back(sequence, Pending{std::move(question), std::move(done), deadline, bytes});
      ++questions_;
      bytes_ += bytes;
      wakes = !std::exchange(wakes_, true);
    }
  }
  if (wakes) loop_->Post([self = shared_from_this()] { self->TakeNew(); });
  if (sequence == 0) done({0, nullptr, failure});
  return sequence;
}

// Of the code kOk where so much may be asked.
Failure Remote::Refusal(std::size_t bytes) const {
  const ClientOptions& options = core_->options;
  if (bytes > options.frame_bytes) {
    return {Code::kTooLarge, "a question for server " + address_ + " has " + std::to_string(bytes) +
                                 " bytes where at most " + std::to_string(options.frame_bytes) + " are allowed", 0};
  }
  if (questions_ >= options.questions) {
    return {Code::kBusy,
            "server " + address_ + " has " + std::to_string(questions_) + " questions to answer, the most it may", 0};
  }
  if (bytes_ > 0 && bytes_ + bytes > options.bytes) {
    return {Code::kBusy, "questions for server " + address_ + " have " + std::to_string(bytes_ + bytes) +
                             " bytes where at most " + std::to_string(options.bytes) + " are allowed", 0};
  }
  return {Code::kOk, "", 0};
}

void Remote::End(const Failure& failure) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    end_ = failure;
  }
  loop_->Post([self = shared_from_this(), failure] { self->EndAll(failure); });
}

void Remote::TakeNew() {
  {
    std::lock_guard lock(mutex_);
    wakes_ = false;
    for (auto& [sequence, pending] : new_) pending_.emplace_hint(pending_.end(), sequence, std::move(pending));
    new_.clear();
  }
  if (over_) return EndAll(end_);
  SetTick();
  if (link_ == nullptr) return Connect();
  Fill();
}

// Those that come while it ends are ended by their own call.
void Remote::EndAll(const Failure& failure) {
  over_ = true;
  std::error_code ignored;
  tick_.cancel();
  back_off_.cancel();
  resolver_.cancel();
  socket_.close(ignored);
  if (link_ != nullptr) std::exchange(link_, nullptr)->Close(Link::End::kLocal, failure.words);
  {
    std::lock_guard lock(mutex_);
    for (auto& [sequence, pending] : new_) pending_.emplace_hint(pending_.end(), sequence, std::move(pending));
    new_.clear();
  }
  while (!pending_.empty()) FinishFailed(pending_.begin(), failure);
}

void Remote::Finish(All::iterator which, Outcome outcome) {
  outcome.sequence = which->first;
  Pending pending = std::move(which->second);
  if (which->first < next_) --sent_;
  pending_.erase(which);
  {
    std::lock_guard lock(mutex_);
    --questions_;
    bytes_ -= pending.bytes;
  }
  // What it held is free before somebody asks anew.
  pending.question.payload = {};
  pending.done(std::move(outcome));
}

void Remote::FinishFailed(All::iterator which, Failure failure) { Finish(which, {0, nullptr, std::move(failure)}); }

// What was not sent on this connection, as much as may be under way.
void Remote::Fill() {
  if (!welcomed_) return;
  while (link_ != nullptr && sent_ < core_->options.sent) {
    const auto next = pending_.lower_bound(next_);
    if (next == pending_.end()) return;
    SendOne(next);
  }
}

void Remote::SendOne(All::iterator which) {
  auto& [sequence, pending] = *which;
  FrameHeader header;
  header.kind = FrameKind::kRequest;
  header.flags = pending.question.once ? kOnce : 0;
  header.request_kind = pending.question.kind;
  header.payload = pending.bytes;
  header.client = core_->id;
  header.sequence = sequence;
  header.store_version = pending.question.store_version;
  header.acknowledged = pending_.begin()->first;
  next_ = sequence + 1;
  ++sent_;
  pending.was_sent = true;
  const std::shared_ptr<ClientLink> link = link_;
  link->Send(header, pending.question.payload);
}

void Remote::Received(const FrameHeader& header, std::shared_ptr<Buffer> payload) {
  pause_ = core_->options.first_pause;
  const auto found = pending_.find(header.sequence);
  // One whose deadline is over is not awaited any more.
  if (found != pending_.end() && found->second.was_sent) Finish(found, {0, std::move(payload), {}});
  Fill();
}

void Remote::Failed(const FrameHeader& header, std::shared_ptr<Buffer> payload) {
  auto failure = DecodeFailure({payload->data(), payload->size()});
  if (!failure) return link_->Close(Link::End::kMalformed, "a failure is none");
  failure->store_version = header.store_version;
  failure->words = "server " + address_ + ": " + failure->words;
  if (header.sequence == 0) return NotWelcomed(std::move(*failure));
  pause_ = core_->options.first_pause;
  const auto found = pending_.find(header.sequence);
  if (found != pending_.end() && found->second.was_sent) FinishFailed(found, std::move(*failure));
  Fill();
}

void Remote::SetTick() {
  if (over_ || std::exchange(ticks_, true)) return;
  tick_.expires_after(kTick);
  tick_.async_wait([self = shared_from_this()](const std::error_code& error) {
    self->ticks_ = false;
    if (!error) self->Tick();
  });
}

void Remote::Tick() {
  const auto now = Clock::now();
  EndLate(now);
  if (over_) return;
  if (const std::shared_ptr<ClientLink> link = link_; link != nullptr) {
    link->Check(now, core_->options.stuck_deadline, core_->options.stuck_deadline);
  }
  if (connects_ && now > connect_by_) GiveUp();
  Fill();
  if (!pending_.empty() || connects_) SetTick();
}

void Remote::EndLate(Clock::time_point now) {
  std::vector<std::uint64_t> late;
  for (const auto& [sequence, pending] : pending_) {
    if (pending.deadline <= now) late.push_back(sequence);
  }
  for (const std::uint64_t sequence : late) {
    const auto found = pending_.find(sequence);
    if (found == pending_.end()) continue;
    const std::string time = " within " + std::to_string(found->second.question.deadline.count()) + " ms";
    Failure failure{Code::kDeadline, "server " + address_ + " did not answer" + time, 0};
    if (!welcomed_) {
      failure.code = Code::kUnreachable;
      failure.words = "server " + address_ + " was not reached" + time + ": " +
                      (last_error_.empty() ? "there is no connection yet" : last_error_);
    }
    FinishFailed(found, std::move(failure));
  }
}

}  // namespace afo::psplus
