#include "afo/psplus/connection.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace afo::psplus {
namespace {

// What a frame costs besides its payload.
constexpr std::size_t kFrameCost = 512;
// One that the server did not know says hello again.
constexpr int kMostHellos = 2;

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<Loop> loop, asio::ip::tcp::socket socket,
                       std::function<void(Connection*)> gone)
    // Before its hello it has nothing to send.
    : Link(std::move(loop), std::move(socket), core->tls, 0, &core->traffic),
      core_(std::move(core)),
      gone_(std::move(gone)) {}

void Connection::Sweep(Clock::time_point now) {
  if (client_ == nullptr && now - made_ > core_->options.handshake_deadline) {
    return Close(End::kHandshake, "there was no hello in time");
  }
  Check(now, core_->options.frame_deadline, core_->options.reader_deadline);
}

Link::Admission Connection::OnHeader(const FrameHeader& header) {
  if (client_ == nullptr) {
    if (header.kind != FrameKind::kHello || header.client == 0 || hellos_ == kMostHellos) return Admission::kWrong;
    ++hellos_;
    return Admission::kGood;
  }
  if (header.kind != FrameKind::kRequest || header.client != id_ || header.sequence == 0) return Admission::kWrong;
  const std::size_t bytes = header.payload + kFrameCost;
  if (!IsRoom(bytes)) return Admission::kLater;
  coming_ = bytes;
  return Admission::kGood;
}

bool Connection::IsRoom(std::size_t bytes) {
  const ServerOptions& options = core_->options;
  // OnSent and Finish go on.
  if (requests_ >= options.connection_requests || asked_ + going_ >= options.connection_bytes) return false;
  if (core_->bytes.Take(bytes)) return true;
  if (std::exchange(waits_for_room_, true)) return false;
  const std::weak_ptr<Connection> weak = Self();
  core_->bytes.WhenFree([weak, loop = shared_loop()] {
    loop->Post([weak] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->waits_for_room_ = false;
      self->Resume();
    });
  });
  return false;
}

void Connection::OnFrame(Received received) {
  if (received.header.kind == FrameKind::kHello) {
    Greet(received.header);
  } else {
    Ask(std::move(received));
  }
}

void Connection::Greet(const FrameHeader& hello) {
  Window::Entered entered = core_->window.Enter(hello.client, (hello.flags & kUnanswered) != 0);
  if (entered.client == nullptr) return Fail(0, entered.failure);
  id_ = hello.client;
  client_ = std::move(entered.client);
  set_most(core_->options.frame_bytes);
  FrameHeader welcome;
  welcome.kind = FrameKind::kWelcome;
  welcome.client = id_;
  welcome.store_version = core_->store_version;
  going_ += kFrameCost;
  core_->bytes.Add(kFrameCost);
  Send(welcome, {});
}

void Connection::Ask(Received received) {
  const FrameHeader& header = received.header;
  const Asked asked{header.sequence, std::min<std::size_t>(header.request_kind, kCountedKinds - 1),
                    std::exchange(coming_, 0), Clock::now()};
  asked_ += asked.bytes;
  ++requests_;
  KindCounters& counters = core_->kinds[asked.kind];
  counters.requests.Add();
  counters.bytes_in.Add(header.payload);
  counters.queued.Add(asked.since - received.since);
  const Respond respond([self = Self(), asked](Answer answer) { self->Answered(asked, std::move(answer)); });
  core_->Learn(header.store_version);
  if (header.store_version != core_->store_version) {
    core_->other_versions.Add();
    return respond(Answer::Failed(Code::kOtherVersion, "the request is about version " +
                                                           std::to_string(header.store_version) + " of the store"));
  }
  client_->Acknowledge(header.acknowledged);
  if ((header.flags & kOnce) == 0) return Serve(header, received.payload, respond);
  client_->Once(
      header.sequence, respond, [&](const Respond& remembered) { Serve(header, received.payload, remembered); },
      &core_->repeated);
}

void Connection::Serve(const FrameHeader& header, const std::shared_ptr<Buffer>& payload, const Respond& respond) {
  Request request;
  request.kind = header.request_kind;
  request.once = (header.flags & kOnce) != 0;
  request.client = header.client;
  request.sequence = header.sequence;
  request.payload = payload;
  request.tickets = client_->tickets();
  try {
    core_->service->Serve(std::move(request), respond);
  } catch (const std::exception& error) {
    respond(Answer::Failed(Code::kInternal, error.what()));
  }
}

void Connection::Answered(const Asked& asked, Answer answer) {
  if (loop().IsHere()) return Finish(asked, std::move(answer));
  loop().Post([self = Self(), asked, answer = std::move(answer)] { self->Finish(asked, answer); });
}

void Connection::Finish(const Asked& asked, Answer answer) {
  KindCounters& counters = core_->kinds[asked.kind];
  counters.served.Add(Clock::now() - asked.since);
  if (answer.code != Code::kOk) counters.failures.Add();
  asked_ -= asked.bytes;
  --requests_;
  if (!ended()) {
    counters.bytes_out.Add(answer.payload.bytes());
    Reply(asked.sequence, std::move(answer));
  }
  core_->bytes.Give(asked.bytes);
  Resume();
}

void Connection::Reply(std::uint64_t sequence, Answer answer) {
  if (answer.code != Code::kOk) return Fail(sequence, {answer.code, std::move(answer.words), 0});
  const std::size_t bytes = answer.payload.bytes();
  if (bytes > core_->options.frame_bytes) {
    return Fail(sequence, {Code::kTooLarge,
                           "the reply has " + std::to_string(bytes) + " bytes where at most " +
                               std::to_string(core_->options.frame_bytes) + " are allowed",
                           0});
  }
  FrameHeader header;
  header.kind = FrameKind::kReply;
  header.payload = bytes;
  header.client = id_;
  header.sequence = sequence;
  header.store_version = core_->store_version;
  going_ += bytes + kFrameCost;
  core_->bytes.Add(bytes + kFrameCost);
  Send(header, std::move(answer.payload));
}

void Connection::Fail(std::uint64_t sequence, const Failure& failure) {
  const auto words = std::make_shared<const std::string>(EncodeFailure(failure));
  FrameHeader header;
  header.kind = FrameKind::kFailure;
  header.payload = words->size();
  header.client = id_;
  header.sequence = sequence;
  header.store_version = core_->store_version;
  going_ += words->size() + kFrameCost;
  core_->bytes.Add(words->size() + kFrameCost);
  Send(header, {{{words->data(), words->size()}}, words});
}

void Connection::OnSent(std::size_t payload) {
  const std::size_t bytes = payload + kFrameCost;
  going_ -= bytes;
  core_->bytes.Give(bytes);
  Resume();
}

// Requests that are not answered give back theirs when they are.
void Connection::OnEnd(End end, const std::string&) {
  CountEnd(end);
  core_->bytes.Give(std::exchange(coming_, 0) + std::exchange(going_, 0));
  if (client_ != nullptr) core_->window.Leave(id_, Clock::now());
  gone_(this);
}

void Connection::CountEnd(End end) {
  if (end == End::kLocal) return;
  if (client_ == nullptr) return core_->refused_handshakes.Add();
  if (end == End::kMalformed) core_->malformed_frames.Add();
  if (end == End::kLateFrame) core_->late_frames.Add();
  if (end == End::kSlowReader) core_->slow_readers.Add();
}

}  // namespace afo::psplus
