// The desk of a parameter server's process: requests to save or load the tables, which Python answers.
//
// Whoever serves clients puts a request down and waits for its answer without a thread; a Python thread takes it up
// through the C functions of desk_functions.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "afo/core/store.h"

namespace afo {

struct DeskRequest {
  // Lives as long as the request.
  std::shared_ptr<Store> store;
  // Whoever has given it: another request with the same name ends this one.
  std::string asker;
  std::string words;
  // Called once, by whoever answers.
  std::function<void(std::string)> answer;
  // Whoever asked does not wait any more, or has asked something else: it is to be answered soon.
  std::atomic<bool> stopped{false};
  std::int64_t number = 0;
  bool taken = false;
};

// Thread-safe. Requests of the same store are taken one after another, each when the one before was answered.
class Desk {
 public:
  static Desk& OfProcess();

  // There is somebody who takes requests, until as many calls of Close.
  void Open();
  void Close();

  // Stops the earlier ones of the same store and asker. False where nobody is at the desk.
  [[nodiscard]] bool Put(const std::shared_ptr<DeskRequest>& request);
  // The next that may be taken; none after `longest`, or where somebody leaves the desk.
  std::shared_ptr<DeskRequest> Take(std::chrono::milliseconds longest);
  // One that was taken and is not answered; none where there is no such.
  std::shared_ptr<DeskRequest> Find(std::int64_t number);
  void Answer(std::int64_t number, std::string answer);

 private:
  std::shared_ptr<DeskRequest> NextToTake();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<DeskRequest>> open_;
  std::int64_t numbers_ = 0;
  std::int64_t closed_ = 0;
  int attendants_ = 0;
};

}  // namespace afo
