// Each acknowledged request with `once` was carried out exactly once, and none twice, whatever happens to connections.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "proxy.h"
#include "support.h"

namespace afo::psplus::testing {
namespace {

int Seeds(int usual) {
  const char* soak = std::getenv("AFO_PSPLUS_SOAK");
  return soak == nullptr ? usual : usual * std::atoi(soak);
}

// Counts how often each number came; answers at once or later, briefly or at length.
class CountingService : public Service {
 public:
  explicit CountingService(std::uint64_t seed) : random_(seed), thread_([this] { AnswerLater(); }) {}
  ~CountingService() override {
    {
      std::lock_guard lock(mutex_);
      stops_ = true;
    }
    thread_.join();
  }

  void Serve(Request request, Respond respond) override {
    std::uint64_t number = 0;
    std::memcpy(&number, request.payload->data(), sizeof(number));
    Answer answer = Answer::Of(PayloadOf(std::string(request.payload->data(), 8)));
    {
      std::lock_guard lock(mutex_);
      if (request.once) ++counts_[number];
      if (random_() % 20 == 0) answer.payload = PayloadOf(std::string(request.payload->data(), 8) + std::string(70'000, 'x'));
      if (random_() % 4 == 0) {
        later_.emplace_back(std::move(respond), std::move(answer));
        return;
      }
    }
    respond(std::move(answer));
  }

  std::map<std::uint64_t, int> counts() {
    std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  void AnswerLater() {
    for (;;) {
      std::vector<std::pair<Respond, Answer>> now;
      {
        std::lock_guard lock(mutex_);
        if (stops_) return;
        std::shuffle(later_.begin(), later_.end(), random_);
        const auto middle = later_.begin() + static_cast<std::ptrdiff_t>(later_.size() / 2);
        std::move(middle, later_.end(), std::back_inserter(now));
        later_.erase(middle, later_.end());
      }
      for (auto& [respond, answer] : now) respond(std::move(answer));
      std::this_thread::sleep_for(milliseconds(2));
    }
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  std::map<std::uint64_t, int> counts_;
  std::vector<std::pair<Respond, Answer>> later_;
  bool stops_ = false;
  std::thread thread_;
};

struct Asked {
  std::uint64_t number;
  bool once;
  Outcome outcome;
};

// Asks `count` questions of one client, some at a time, with numbers of its own.
std::vector<Asked> AskMany(std::uint64_t seed, std::uint64_t client_number, int count, bool tls, std::uint16_t port) {
  std::mt19937_64 random(seed * 100 + client_number);
  ClientOptions options = ClientOptionsOf(tls);
  options.sent = 1 + random() % 32;
  const auto client = Made(options, {"127.0.0.1:" + std::to_string(port)});
  std::vector<Asked> asked;
  for (int i = 0; i < count;) {
    Answers answers;
    const int some = std::min<int>(count - i, 1 + static_cast<int>(random() % 50));
    const std::size_t first = asked.size();
    for (int j = 0; j < some; ++j, ++i) {
      const std::uint64_t number = client_number << 32 | static_cast<std::uint64_t>(i);
      std::string text(reinterpret_cast<const char*>(&number), sizeof(number));
      if (random() % 10 == 0) text += std::string(random() % 50'000, 'y');
      Question question = QuestionOf(std::move(text), random() % 4 != 0);
      // A few are given up while they are under way.
      if (random() % 50 == 0) question.deadline = milliseconds(30);
      asked.push_back({number, question.once, {}});
      client->Ask(0, std::move(question), answers.Next());
    }
    const auto outcomes = answers.Wait();
    for (std::size_t j = 0; j < outcomes.size(); ++j) asked[first + j].outcome = outcomes[j];
  }
  return asked;
}

struct Tally {
  int acknowledged = 0, failed = 0, unknown = 0;
};

// What was acknowledged was carried out once; what was not, at most once.
Tally Judge(const std::vector<Asked>& asked, const std::map<std::uint64_t, int>& counts) {
  Tally tally;
  for (const Asked& each : asked) {
    const auto found = counts.find(each.number);
    const int count = found == counts.end() ? 0 : found->second;
    if (each.outcome.ok()) {
      ++tally.acknowledged;
      CHECK(std::memcmp(each.outcome.reply->data(), &each.number, sizeof(each.number)) == 0);
      CHECK(count == (each.once ? 1 : 0));
      continue;
    }
    ++tally.failed;
    if (each.outcome.failure.code == Code::kUnknownClient) ++tally.unknown;
    CHECK(count <= 1);
  }
  return tally;
}

void Check(std::uint64_t seed, bool tls, Misdeeds misdeeds, bool restarts) {
  CAPTURE(seed);
  CAPTURE(tls);
  CAPTURE(restarts);
  CountingService service(seed);
  auto server = Started(ServerOptionsOf(tls), &service);
  misdeeds.seed = seed;
  Proxy proxy(server->port(), misdeeds);
  constexpr int kClients = 4, kCount = 250;
  std::vector<std::vector<Asked>> all(kClients);
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      all[i] = AskMany(seed, i + 1, kCount, tls, proxy.port());
      ++ended;
    });
  }
  std::mt19937_64 random(seed);
  std::uint64_t repeated = 0;
  // A server that starts anew knows nobody.
  for (int i = 0; restarts && i < 3 && ended < kClients; ++i) {
    std::this_thread::sleep_for(milliseconds(20 + random() % 30));
    repeated += server->statistics().repeated;
    server.reset();
    server = Started(ServerOptionsOf(tls), &service);
    proxy.SetServer(server->port());
  }
  for (std::thread& thread : threads) thread.join();
  repeated += server->statistics().repeated;
  Tally sum;
  const auto counts = service.counts();
  for (const auto& asked : all) {
    const Tally tally = Judge(asked, counts);
    sum.acknowledged += tally.acknowledged;
    sum.failed += tally.failed;
    sum.unknown += tally.unknown;
  }
  // Without one of them this shows nothing.
  CHECK(proxy.cuts() > kClients);
  if (misdeeds.cuts != 0) CHECK(repeated > 0);
  CHECK(sum.acknowledged > kClients * kCount / 2);
  // Only a server that starts anew knows less than its clients.
  if (!restarts) CHECK(sum.unknown == 0);
}

TEST_CASE("exactly once, over connections that are cut and delayed") {
  const auto seeds = static_cast<std::uint64_t>(Seeds(2));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) Check(seed, true, {40, 20, false, 0}, false);
}

TEST_CASE("exactly once, over connections whose bytes come again") {
  const auto seeds = static_cast<std::uint64_t>(Seeds(2));
  for (std::uint64_t seed = 101; seed <= 100 + seeds; ++seed) Check(seed, false, {40, 20, true, 0}, false);
}

TEST_CASE("exactly once, at servers that start anew") {
  const auto seeds = static_cast<std::uint64_t>(Seeds(2));
  for (std::uint64_t seed = 201; seed <= 200 + seeds; ++seed) Check(seed, true, {60, 20, false, 0}, true);
}

TEST_CASE("a client that a server does not know is told so, and goes on") {
  std::atomic<bool> answers_now{false};
  std::mutex mutex;
  std::vector<Respond> open;
  FunctionService service([&](const Request& request, const Respond& respond) {
    if (answers_now) return Echo(request, respond);
    std::lock_guard lock(mutex);
    open.push_back(respond);
  });
  auto server = Started(ServerOptionsOf(true), &service);
  Proxy proxy(server->port(), {});
  const auto client = Made(ClientOptionsOf(true), {"127.0.0.1:" + std::to_string(proxy.port())});
  Answers answers;
  client->Ask(0, QuestionOf("push", true), answers.Next());
  client->Ask(0, QuestionOf("pull"), answers.Next());
  REQUIRE(Eventually([&] {
    std::lock_guard lock(mutex);
    return open.size() == 2;
  }));
  answers_now = true;
  const auto second = Started(ServerOptionsOf(true), &service);
  proxy.SetServer(second->port());
  server.reset();
  const auto outcomes = answers.Wait();
  CHECK(outcomes[0].failure.code == Code::kUnknownClient);
  CHECK(TextOf(*outcomes[1].reply) == "pull");
  CHECK(AskAndWait(client.get(), QuestionOf("push", true)).ok());
}

TEST_CASE("a request that comes again over another connection waits for the first") {
  std::mutex mutex;
  std::vector<Respond> open;
  FunctionService service([&](const Request&, const Respond& respond) {
    std::lock_guard lock(mutex);
    open.push_back(respond);
  });
  const auto server = Started(ServerOptionsOf(true), &service);
  Proxy proxy(server->port(), {});
  const auto client = Made(ClientOptionsOf(true), {"127.0.0.1:" + std::to_string(proxy.port())});
  Answers answers;
  client->Ask(0, QuestionOf("save", true), answers.Next());
  REQUIRE(Eventually([&] {
    std::lock_guard lock(mutex);
    return open.size() == 1;
  }));
  proxy.CutAll();
  REQUIRE(Eventually([&] { return server->statistics().repeated == 1; }));
  open.front()(Answer::Of(PayloadOf("saved")));
  CHECK(TextOf(*answers.Wait().front().reply) == "saved");
  CHECK(open.size() == 1);
}

}  // namespace
}  // namespace afo::psplus::testing
