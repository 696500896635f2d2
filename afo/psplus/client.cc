#include "afo/psplus/client.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "afo/psplus/loop.h"
#include "afo/psplus/remote.h"
#include "afo/psplus/sockets.h"

namespace afo::psplus {
namespace {

using std::chrono::milliseconds;

std::string WrongIn(const ClientOptions& options) {
  if (!options.tls && !options.plain) return "neither a certificate is given nor plain connections are asked for";
  if (options.tls && options.plain) return "a certificate is given and plain connections are asked for";
  if (options.threads < 1 || options.threads > 64) {
    return "there are to be " + std::to_string(options.threads) + " threads where 1 to 64 are allowed";
  }
  if (std::min({options.frame_bytes, options.sent, options.questions, options.bytes}) == 0) return "a bound is 0";
  const milliseconds shortest =
      std::min({options.connect_deadline, options.first_pause, options.longest_pause, options.stuck_deadline});
  if (shortest <= milliseconds(0)) return "a deadline is not above 0";
  return {};
}

}  // namespace

class Client::Impl {
 public:
  explicit Impl(std::shared_ptr<ClientCore> core) : core_(std::move(core)) {}
  ~Impl();

  std::string Start();
  std::string SetServers(std::uint64_t store_version, const std::vector<std::string>& addresses);
  std::uint64_t Ask(std::size_t server, Question question, Done done);
  std::uint64_t id() const { return core_->id; }
  std::uint64_t losses() const { return core_->losses.value(); }

 private:
  std::shared_ptr<Remote> Find(std::size_t server, const Question& question, Failure* failure);
  void EndRemotes(std::vector<std::shared_ptr<Remote>> remotes, const Failure& failure);

  const std::shared_ptr<ClientCore> core_;
  std::vector<std::shared_ptr<Loop>> loops_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Remote>> remotes_;
  std::uint64_t store_version_ = 0;
  bool closed_ = false;
};

Client::Impl::~Impl() {
  std::vector<std::shared_ptr<Remote>> remotes;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    remotes.swap(remotes_);
  }
  EndRemotes(std::move(remotes), {Code::kClosed, "the client is closed", 0});
  for (const auto& loop : loops_) loop->Drain();
}

std::string Client::Impl::Start() {
  for (int i = 0; i < core_->options.threads; ++i) {
    loops_.push_back(std::make_shared<Loop>());
    if (!loops_.back()->Start()) return "the system has no thread left";
  }
  return {};
}

std::string Client::Impl::SetServers(std::uint64_t store_version, const std::vector<std::string>& addresses) {
  std::vector<std::shared_ptr<Remote>> remotes;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    auto place = SplitAddress(addresses[i]);
    if (!place) return "address " + addresses[i] + " is not as host:port";
    remotes.push_back(std::make_shared<Remote>(core_, loops_[i % loops_.size()], addresses[i], std::move(*place)));
  }
  {
    std::lock_guard lock(mutex_);
    remotes.swap(remotes_);
    store_version_ = store_version;
  }
  EndRemotes(std::move(remotes),
             {Code::kOtherVersion, "the store has version " + std::to_string(store_version) + " now", store_version});
  return {};
}

void Client::Impl::EndRemotes(std::vector<std::shared_ptr<Remote>> remotes, const Failure& failure) {
  for (const auto& remote : remotes) remote->End(failure);
}

std::uint64_t Client::Impl::Ask(std::size_t server, Question question, Done done) {
  Failure failure;
  const std::shared_ptr<Remote> remote = Find(server, question, &failure);
  if (remote != nullptr) return remote->Ask(std::move(question), std::move(done));
  done({0, nullptr, std::move(failure)});
  return 0;
}

std::shared_ptr<Remote> Client::Impl::Find(std::size_t server, const Question& question, Failure* failure) {
  std::lock_guard lock(mutex_);
  if (closed_) {
    *failure = {Code::kClosed, "the client is closed", 0};
  } else if (question.store_version != store_version_) {
    *failure = {Code::kOtherVersion,
                "the question is about version " + std::to_string(question.store_version) +
                    " of the store, which has version " + std::to_string(store_version_),
                store_version_};
  } else if (server >= remotes_.size()) {
    *failure = {Code::kUnreachable, "there is no server " + std::to_string(server) + ", but " +
                                        std::to_string(remotes_.size()) + " from 0 on", 0};
  } else {
    return remotes_[server];
  }
  return nullptr;
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Client::Made Client::Of(const ClientOptions& options) {
  if (std::string wrong = WrongIn(options); !wrong.empty()) return {nullptr, std::move(wrong)};
  auto core = std::make_shared<ClientCore>();
  core->options = options;
  while (core->id == 0) core->id = RandomBits();
  if (options.tls) {
    TlsContext::Made made = TlsContext::Of(TlsEnd::kClient, *options.tls);
    if (made.context == nullptr) return {nullptr, std::move(made.wrong)};
    core->tls = std::move(made.context);
  }
  auto impl = std::make_unique<Impl>(std::move(core));
  std::string wrong = impl->Start();
  if (!wrong.empty()) return {nullptr, std::move(wrong)};
  return {std::unique_ptr<Client>(new Client(std::move(impl))), {}};
}

std::string Client::SetServers(std::uint64_t store_version, const std::vector<std::string>& addresses) {
  return impl_->SetServers(store_version, addresses);
}

std::uint64_t Client::Ask(std::size_t server, Question question, Done done) {
  return impl_->Ask(server, std::move(question), std::move(done));
}

std::uint64_t Client::losses() const { return impl_->losses(); }
std::uint64_t Client::id() const { return impl_->id(); }

}  // namespace afo::psplus
