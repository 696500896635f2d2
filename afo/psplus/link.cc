#include "afo/psplus/link.h"

#include <sys/socket.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace afo::psplus {
namespace {

// Reads of blocks before other connections of the loop have their turn.
constexpr int kTurns = 4;
// Of a payload that is not encrypted: from here on it is received where it belongs.
constexpr std::size_t kDirect = kBlockBytes / 2;

}  // namespace

Link::Link(std::shared_ptr<Loop> loop, asio::ip::tcp::socket socket, std::shared_ptr<TlsContext> tls, std::size_t most,
           Traffic* traffic)
    : loop_(std::move(loop)), socket_(std::move(socket)), traffic_(traffic), most_(most) {
  if (tls != nullptr) tls_ = std::make_unique<TlsSession>(std::move(tls), &input_, &output_);
}

Link::~Link() = default;

void Link::Open() {
  std::error_code error;
  socket_.native_non_blocking(true, error);
  if (error) return Close(End::kLocal, error.message());
  if (tls_ == nullptr) {
    open_ = true;
    OnOpen();
  } else {
    Shake();
  }
  WaitToRead();
}

void Link::Check(Clock::time_point now, std::chrono::milliseconds frame, std::chrono::milliseconds reader) {
  if (head_bytes_ > 0 && !paused_ && now - deadline_from_ > frame) {
    Close(End::kLateFrame, "the rest of a frame did not come");
  } else if ((!frames_.empty() || output_.size() > 0) && now - stuck_from_ > reader) {
    Close(End::kSlowReader, "the peer does not take what is sent");
  }
}

// Later, and once: it is called in the middle of other things.
void Link::Resume() {
  if (!paused_ || ended_ || uses_) return;
  uses_ = true;
  asio::post(loop_->context(), [this, self = shared_from_this()] {
    uses_ = false;
    if (!paused_ || ended_) return;
    if (Admit() == Flow::kStops || paused_) return;
    deadline_from_ = Clock::now();
    const std::vector<char> rest = std::move(rest_);
    rest_.clear();
    input_ = {rest.data(), rest.size()};
    Use();
    input_ = {};
    if (!paused_) ReadSome();
  });
}

void Link::Close(End end, const std::string& why) {
  if (std::exchange(ended_, true)) return;
  // Counted before the peer can know.
  OnEnd(end, why);
  std::error_code ignored;
  socket_.close(ignored);
  frames_.clear();
  rest_ = {};
  payload_.reset();
  output_ = {};
  if (block_ != nullptr) loop_->GiveBlock(std::move(block_));
}

void Link::Shake() {
  HoldBlock();
  const TlsSession::State state = tls_->Handshake();
  if (state != TlsSession::State::kBroken && state != TlsSession::State::kEnded) {
    open_ = state == TlsSession::State::kDone;
    if (open_) OnOpen();
    if (!ended_) WriteSome();
    return;
  }
  // The other end is told why, if it listens.
  const Piece alert{output_.block + output_.begin, output_.size()};
  if (alert.size > 0) Push(&alert, 1);
  Close(End::kHandshake, tls_->why());
}

void Link::WaitToRead() {
  if (ended_ || paused_ || std::exchange(waits_to_read_, true)) return;
  socket_.async_wait(asio::socket_base::wait_read, [this, self = shared_from_this()](const std::error_code& error) {
    waits_to_read_ = false;
    if (!error) ReadSome();
  });
}

void Link::ReadSome() {
  for (int turn = 0; turn < kTurns && !ended_ && !paused_; ++turn) {
    if (ReadOnce() == Flow::kStops) break;
  }
  if (output_.block != nullptr) WriteSome();
  WaitToRead();
}

Link::Flow Link::ReadOnce() {
  const Piece wanted = Wanted();
  if (tls_ == nullptr && wanted.size >= kDirect) {
    const auto got = Receive(const_cast<char*>(wanted.data), std::min(wanted.size, 2 * kBlockBytes));
    return got ? Took(*got) : Flow::kStops;
  }
  const auto got = Receive(loop_->received(), kBlockBytes);
  if (!got) return Flow::kStops;
  if (tls_ != nullptr) HoldBlock();
  input_ = {loop_->received(), *got};
  if (!open_) Shake();
  const Flow flow = open_ && !ended_ ? Use() : Flow::kStops;
  input_ = {};
  // What is less than was asked for was all.
  return *got < kBlockBytes ? Flow::kStops : flow;
}

std::optional<std::size_t> Link::Receive(char* to, std::size_t size) {
  const ssize_t got = ::recv(socket_.native_handle(), to, size, MSG_DONTWAIT);
  if (got > 0) {
    traffic_->in.Add(static_cast<std::size_t>(got));
    return static_cast<std::size_t>(got);
  }
  if (got == 0) {
    Close(open_ ? End::kPeer : End::kHandshake, "the peer closed the connection");
  } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    Close(End::kPeer, std::strerror(errno));
  }
  return std::nullopt;
}

Link::Flow Link::Use() {
  while (!ended_) {
    if (paused_) {
      KeepRest();
      return Flow::kStops;
    }
    const Piece wanted = Wanted();
    const TlsSession::Step step = Take(const_cast<char*>(wanted.data), wanted.size);
    switch (step.state) {
      case TlsSession::State::kDone:
        Took(step.bytes);
        break;
      case TlsSession::State::kWants:
        if (input_.size == 0) return Flow::kGoes;
        Close(End::kMalformed, "the peer asks for more than it takes");
        break;
      case TlsSession::State::kEnded:
        Close(End::kPeer, "the peer closed the connection");
        break;
      case TlsSession::State::kBroken:
        Close(End::kMalformed, tls_->why());
        break;
    }
  }
  return Flow::kStops;
}

// Where the next bytes belong.
Piece Link::Wanted() const {
  if (head_bytes_ < kHeaderBytes) return {head_.data() + head_bytes_, kHeaderBytes - head_bytes_};
  if (payload_ == nullptr) return {};
  return {payload_->data() + payload_bytes_, payload_->size() - payload_bytes_};
}

TlsSession::Step Link::Take(char* to, std::size_t size) {
  if (tls_ != nullptr) return tls_->Read(to, size);
  const std::size_t taken = std::min(size, input_.size);
  if (taken == 0) return {TlsSession::State::kWants, 0};
  std::memcpy(to, input_.data, taken);
  input_.data += taken;
  input_.size -= taken;
  return {TlsSession::State::kDone, taken};
}

void Link::KeepRest() { rest_.assign(input_.data, input_.data + input_.size); }

Link::Flow Link::Took(std::size_t bytes) {
  if (head_bytes_ == kHeaderBytes) {
    payload_bytes_ += bytes;
    return payload_bytes_ == payload_->size() ? Deliver() : Flow::kGoes;
  }
  if (head_bytes_ == 0) first_byte_ = deadline_from_ = Clock::now();
  head_bytes_ += bytes;
  if (head_bytes_ < kHeaderBytes) return Flow::kGoes;
  DecodedHeader decoded = DecodeHeader(head_.data(), most_);
  if (!decoded.wrong.empty()) {
    Close(End::kMalformed, "a frame " + decoded.wrong);
    return Flow::kStops;
  }
  header_ = decoded.header;
  return Admit();
}

Link::Flow Link::Admit() {
  const Admission admission = OnHeader(header_);
  paused_ = admission == Admission::kLater && !ended_;
  if (admission == Admission::kWrong) Close(End::kMalformed, "a frame is not one that may come now");
  if (ended_ || paused_) return Flow::kStops;
  payload_ = Buffer::Of(header_.payload);
  payload_bytes_ = 0;
  if (payload_ == nullptr) {
    Close(End::kLocal, "there is no memory for a frame of " + std::to_string(header_.payload) + " bytes");
    return Flow::kStops;
  }
  return header_.payload == 0 ? Deliver() : Flow::kGoes;
}

Link::Flow Link::Deliver() {
  head_bytes_ = 0;
  OnFrame({header_, std::move(payload_), first_byte_});
  return ended_ ? Flow::kStops : Flow::kGoes;
}

}  // namespace afo::psplus
