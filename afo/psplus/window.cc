#include "afo/psplus/window.h"

#include <algorithm>
#include <string>
#include <utility>

namespace afo::psplus {
namespace {

// Ways back of one request; more come from connections that are gone.
constexpr std::size_t kMostWaiting = 8;

std::size_t BytesOf(const Answer& answer) { return answer.payload.bytes() + answer.words.size(); }

}  // namespace

KnownClient::KnownClient(const WindowOptions& options, std::shared_ptr<Budget> bytes)
    : options_(options), all_bytes_(std::move(bytes)), tickets_(std::make_shared<Tickets>(options.requests)) {}

KnownClient::~KnownClient() { all_bytes_->Give(bytes_); }

// Answers are given, and requests served, outside of the lock: they come back here.
void KnownClient::Once(std::uint64_t sequence, Respond respond, const std::function<void(Respond)>& serve,
                       Counter* repeated) {
  std::unique_lock lock(mutex_);
  const auto found = remembered_.find(sequence);
  if (found != remembered_.end()) {
    repeated->Add();
    if (found->second.done) {
      Answer answer = found->second.answer;
      lock.unlock();
      return respond(std::move(answer));
    }
    std::vector<Respond>& waiting = found->second.waiting;
    waiting.push_back(std::move(respond));
    if (waiting.size() <= kMostWaiting) return;
    const Respond oldest = waiting.front();
    waiting.erase(waiting.begin());
    lock.unlock();
    return oldest(Answer::Failed(Code::kBusy, "the request was sent too often"));
  }
  if (sequence <= forgotten_) {
    lock.unlock();
    return respond(Answer::Failed(
        Code::kForgotten, "request " + std::to_string(sequence) + " is older than those that the server remembers"));
  }
  if (!MakeRoom()) {
    lock.unlock();
    return respond(Answer::Failed(Code::kBusy, "the server is busy with " + std::to_string(options_.requests) +
                                                   " requests of this client"));
  }
  remembered_[sequence].waiting.push_back(std::move(respond));
  lock.unlock();
  serve(Respond([self = shared_from_this(), sequence](const Answer& answer) { self->Served(sequence, answer); }));
}

void KnownClient::Served(std::uint64_t sequence, const Answer& answer) {
  std::vector<Respond> waiting;
  {
    std::lock_guard lock(mutex_);
    const auto found = remembered_.find(sequence);
    Remembered& remembered = found->second;
    remembered.done = true;
    remembered.answer = answer;
    remembered.bytes = BytesOf(answer);
    waiting.swap(remembered.waiting);
    bytes_ += remembered.bytes;
    all_bytes_->Add(remembered.bytes);
    // It was acknowledged while it was served, as its client waited no longer.
    if (sequence <= forgotten_) Forget(found);
    Trim();
  }
  for (const Respond& respond : waiting) respond(answer);
}

void KnownClient::Acknowledge(std::uint64_t sequence) {
  std::lock_guard lock(mutex_);
  if (sequence == 0 || sequence - 1 <= forgotten_) return;
  forgotten_ = sequence - 1;
  for (auto each = remembered_.begin(); each != remembered_.end() && each->first < sequence;) {
    const auto next = std::next(each);
    if (each->second.done) Forget(each);
    each = next;
  }
}

bool KnownClient::MakeRoom() {
  if (remembered_.size() < options_.requests) return true;
  const auto oldest =
      std::find_if(remembered_.begin(), remembered_.end(), [](const auto& each) { return each.second.done; });
  if (oldest == remembered_.end()) return false;
  Forget(oldest);
  return true;
}

void KnownClient::Forget(All::iterator which) {
  forgotten_ = std::max(forgotten_, which->first);
  bytes_ -= which->second.bytes;
  all_bytes_->Give(which->second.bytes);
  remembered_.erase(which);
}

void KnownClient::Trim() {
  while (bytes_ > options_.client_bytes || (bytes_ > 0 && all_bytes_->taken() > options_.bytes)) {
    const auto oldest = std::find_if(remembered_.begin(), remembered_.end(),
                                      [](const auto& each) { return each.second.bytes > 0; });
    Forget(oldest);
  }
}

Window::Window(const WindowOptions& options) : options_(options), bytes_(std::make_shared<Budget>(options.bytes)) {}

Window::Entered Window::Enter(std::uint64_t client, bool unanswered) {
  std::lock_guard lock(mutex_);
  auto found = places_.find(client);
  if (found == places_.end()) {
    if (unanswered) {
      return {nullptr, {Code::kUnknownClient, "the server does not know this client, whose last requests it may have carried out", 0}};
    }
    if (places_.size() >= options_.clients) {
      return {nullptr, {Code::kBusy, "the server knows " + std::to_string(options_.clients) + " clients, the most it may", 0}};
    }
    found = places_.emplace(client, Place{std::make_shared<KnownClient>(options_, bytes_), 0, {}}).first;
  }
  ++found->second.connections;
  return {found->second.client, {}};
}

void Window::Leave(std::uint64_t client, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  Place& place = places_.at(client);
  --place.connections;
  place.gone = now;
}

void Window::Sweep(Clock::time_point now) {
  std::vector<std::shared_ptr<KnownClient>> gone;
  std::lock_guard lock(mutex_);
  for (auto each = places_.begin(); each != places_.end();) {
    const Place& place = each->second;
    if (place.connections > 0 || now - place.gone < options_.forget_after) {
      ++each;
      continue;
    }
    gone.push_back(place.client);
    each = places_.erase(each);
  }
}

void Window::ClearTickets() {
  std::vector<std::shared_ptr<KnownClient>> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [client, place] : places_) all.push_back(place.client);
  }
  for (const auto& client : all) client->tickets()->Clear();
}

std::size_t Window::clients() const {
  std::lock_guard lock(mutex_);
  return places_.size();
}

}  // namespace afo::psplus
