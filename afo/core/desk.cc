#include "afo/core/desk.h"

#include <algorithm>
#include <utility>

namespace afo {

// Never destroyed: a thread may wait at it while the process ends.
Desk& Desk::OfProcess() {
  static Desk* const desk = new Desk();
  return *desk;
}

void Desk::Open() {
  std::lock_guard lock(mutex_);
  ++attendants_;
}

void Desk::Close() {
  std::lock_guard lock(mutex_);
  --attendants_;
  ++closed_;
  changed_.notify_all();
}

bool Desk::Put(const std::shared_ptr<DeskRequest>& request) {
  std::lock_guard lock(mutex_);
  if (attendants_ == 0) return false;
  for (const auto& earlier : open_) {
    if (earlier->store == request->store && earlier->asker == request->asker) earlier->stopped = true;
  }
  request->number = ++numbers_;
  open_.push_back(request);
  changed_.notify_all();
  return true;
}

std::shared_ptr<DeskRequest> Desk::NextToTake() {
  for (auto each = open_.begin(); each != open_.end(); ++each) {
    const auto is_of_the_same = [&](const auto& other) { return other->store == (*each)->store; };
    if (!(*each)->taken && std::none_of(open_.begin(), each, is_of_the_same)) return *each;
  }
  return nullptr;
}

std::shared_ptr<DeskRequest> Desk::Take(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  std::shared_ptr<DeskRequest> found;
  const std::int64_t closed = closed_;
  // By the clock that a person may set: waiting by the other one takes glibc 2.30. Put and Close wake it in any case.
  changed_.wait_until(lock, std::chrono::system_clock::now() + longest,
                      [&] { return (found = NextToTake()) != nullptr || closed_ != closed; });
  if (found != nullptr) found->taken = true;
  return found;
}

std::shared_ptr<DeskRequest> Desk::Find(std::int64_t number) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const auto& each) { return each->taken && each->number == number; });
  return found == open_.end() ? nullptr : *found;
}

void Desk::Answer(std::int64_t number, std::string answer) {
  const std::shared_ptr<DeskRequest> request = Find(number);
  if (request == nullptr) return;
  {
    std::lock_guard lock(mutex_);
    open_.remove(request);
    changed_.notify_all();
  }
  request->answer(std::move(answer));
}

}  // namespace afo
