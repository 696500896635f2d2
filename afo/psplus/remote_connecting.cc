// Of a remote (remote.h), its connection: made, lost, and made again.
#include <algorithm>
#include <asio/connect.hpp>
#include <utility>
#include <vector>

#include "afo/psplus/remote.h"

namespace afo::psplus {
namespace {

using Tcp = asio::ip::tcp;
using std::chrono::milliseconds;

}  // namespace

ClientLink::ClientLink(std::shared_ptr<ClientCore> core, std::shared_ptr<Loop> loop, Tcp::socket socket,
                       std::weak_ptr<Remote> remote)
    : Link(std::move(loop), std::move(socket), core->tls, std::max(core->options.frame_bytes, kMostWords + 4),
           &core->traffic),
      core_(std::move(core)),
      remote_(std::move(remote)) {}

void ClientLink::OnOpen() {
  if (const auto remote = remote_.lock()) remote->Greet();
}

Link::Admission ClientLink::OnHeader(const FrameHeader& header) {
  const bool may_come = header.kind == FrameKind::kWelcome || header.kind == FrameKind::kReply ||
                        header.kind == FrameKind::kFailure;
  return may_come ? Admission::kGood : Admission::kWrong;
}

void ClientLink::OnFrame(Link::Received received) {
  const auto remote = remote_.lock();
  if (remote == nullptr) return;
  switch (received.header.kind) {
    case FrameKind::kWelcome:
      return remote->Welcomed();
    case FrameKind::kReply:
      return remote->Received(received.header, std::move(received.payload));
    default:
      return remote->Failed(received.header, std::move(received.payload));
  }
}

void ClientLink::OnEnd(Link::End, const std::string& why) {
  if (const auto remote = remote_.lock()) remote->Lost(why);
}

void Remote::Connect() {
  if (connects_ || over_ || pending_.empty()) return;
  connects_ = true;
  const std::uint64_t attempt = ++attempts_;
  connect_by_ = Clock::now() + core_->options.connect_deadline;
  std::error_code error;
  const auto literal = asio::ip::make_address(place_.host, error);
  if (!error) {
    const Tcp::endpoint endpoint(literal, static_cast<std::uint16_t>(std::stoi(place_.port)));
    return ConnectTo(Tcp::resolver::results_type::create(endpoint, place_.host, place_.port), attempt);
  }
  resolver_.async_resolve(place_.host, place_.port,
                          [self = shared_from_this(), attempt](const std::error_code& failed, const auto& found) {
                            if (attempt != self->attempts_ || self->over_) return;
                            if (failed) return self->Connected(failed, attempt);
                            self->ConnectTo(found, attempt);
                          });
}

void Remote::ConnectTo(const Tcp::resolver::results_type& endpoints, std::uint64_t attempt) {
  socket_ = Tcp::socket(loop_->context());
  asio::async_connect(socket_, endpoints,
                      [self = shared_from_this(), attempt](const std::error_code& error, const Tcp::endpoint&) {
                        self->Connected(error, attempt);
                      });
}

void Remote::Connected(const std::error_code& error, std::uint64_t attempt) {
  if (attempt != attempts_ || over_) return;
  if (error) return Lost(error.message());
  SetOptions(&socket_, core_->options.stuck_deadline);
  next_ = 0;
  sent_ = 0;
  welcomed_ = false;
  // Held here, too: opening may lose it.
  const auto link = std::make_shared<ClientLink>(core_, loop_, std::move(socket_), weak_from_this());
  link_ = link;
  link->Open();
}

// Tries again after a pause, while there is anything to ask.
void Remote::Lost(const std::string& why) {
  if (over_) return;
  core_->losses.Add();
  link_ = nullptr;
  welcomed_ = false;
  next_ = 0;
  sent_ = 0;
  last_error_ = why;
  // An attempt that goes on is none of ours any more.
  const std::uint64_t attempt = ++attempts_;
  connects_ = true;
  back_off_.expires_after(pause_ / 2 + milliseconds(random_() % (pause_.count() / 2 + 1)));
  pause_ = std::min(2 * pause_, core_->options.longest_pause);
  back_off_.async_wait([self = shared_from_this(), attempt](const std::error_code& error) {
    if (error || attempt != self->attempts_) return;
    self->connects_ = false;
    self->Connect();
  });
}

void Remote::Greet() {
  FrameHeader hello;
  hello.kind = FrameKind::kHello;
  hello.client = core_->id;
  const bool unanswered = std::any_of(pending_.begin(), pending_.end(), [](const auto& each) {
    return each.second.was_sent && each.second.question.once;
  });
  if (unanswered) hello.flags = kUnanswered;
  link_->Send(hello, {});
}

void Remote::Welcomed() {
  connects_ = false;
  welcomed_ = true;
  Fill();
}

// A server that does not know this client is told of no requests that another may have carried out.
void Remote::NotWelcomed(Failure failure) {
  if (failure.code != Code::kUnknownClient || welcomed_) {
    return link_->Close(Link::End::kPeer, failure.words);
  }
  std::vector<std::uint64_t> ended;
  for (const auto& [sequence, pending] : pending_) {
    if (pending.was_sent && pending.question.once) ended.push_back(sequence);
  }
  for (const std::uint64_t sequence : ended) {
    const auto found = pending_.find(sequence);
    if (found != pending_.end()) FinishFailed(found, failure);
  }
  if (link_ != nullptr) Greet();
}

// Of an attempt to connect; in a pause between two there is nothing to end.
void Remote::GiveUp() {
  const std::string why = "the server did not answer in time";
  std::error_code ignored;
  if (const std::shared_ptr<ClientLink> link = link_; link != nullptr) {
    link->Close(Link::End::kHandshake, why);
  } else if (socket_.is_open()) {
    socket_.close(ignored);
    Lost(why);
  }
}

}  // namespace afo::psplus
