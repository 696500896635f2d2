// Of a link (link.h), what goes out.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "afo/psplus/link.h"

namespace afo::psplus {
namespace {

// Writes of blocks before other connections of the loop have their turn.
constexpr int kTurns = 4;
constexpr std::size_t kMostPieces = 64;

}  // namespace

void Link::Send(const FrameHeader& header, Payload payload) {
  if (ended_) return;
  if (frames_.empty() && output_.size() == 0) stuck_from_ = Clock::now();
  const std::size_t bytes = payload.bytes();
  frames_.push_back({Encode(header), std::move(payload), bytes});
  WriteSome();
}

void Link::WaitToWrite() {
  if (ended_ || std::exchange(waits_to_write_, true)) return;
  socket_.async_wait(asio::socket_base::wait_write, [this, self = shared_from_this()](const std::error_code& error) {
    waits_to_write_ = false;
    if (!error) WriteSome();
  });
}

void Link::HoldBlock() {
  if (block_ != nullptr) return;
  block_ = loop_->TakeBlock();
  output_ = {block_.get(), kBlockBytes, 0, 0};
}

// Not within itself: what OnSent sends is found by the call that goes on.
void Link::WriteSome() {
  if (waits_to_write_ || ended_ || std::exchange(writes_, true)) return;
  int turn = 0;
  while (turn < kTurns && (tls_ == nullptr ? WritePlain() : WriteEncrypted()) == Flow::kGoes) ++turn;
  writes_ = false;
  if (turn == kTurns) WaitToWrite();
}

Link::Flow Link::WritePlain() {
  std::array<Piece, kMostPieces> pieces;
  std::size_t count = 0, piece = piece_, begin = piece_bytes_;
  for (auto frame = frames_.begin(); frame != frames_.end() && count < kMostPieces; ++frame, piece = 0) {
    if (piece == 0) {
      pieces[count++] = {frame->header.data() + begin, kHeaderBytes - begin};
      begin = 0;
      piece = 1;
    }
    for (; piece <= frame->payload.pieces.size() && count < kMostPieces; ++piece, begin = 0) {
      const Piece& each = frame->payload.pieces[piece - 1];
      pieces[count++] = {each.data + begin, each.size - begin};
    }
  }
  if (count == 0) return Flow::kStops;
  const auto sent = Push(pieces.data(), count);
  if (!sent) return Flow::kStops;
  Went(*sent);
  return Flow::kGoes;
}

Link::Flow Link::WriteEncrypted() {
  if (!Encrypt()) return Flow::kStops;
  const Piece all{output_.block + output_.begin, output_.size()};
  if (all.size == 0) {
    output_ = {};
    if (block_ != nullptr) loop_->GiveBlock(std::move(block_));
    return Flow::kStops;
  }
  const auto sent = Push(&all, 1);
  if (!sent) return Flow::kStops;
  output_.begin += *sent;
  if (output_.size() > 0) {
    WaitToWrite();
    return Flow::kStops;
  }
  output_.begin = output_.end = 0;
  return Flow::kGoes;
}

// False where the connection has ended.
bool Link::Encrypt() {
  if (frames_.empty()) return true;
  HoldBlock();
  while (!frames_.empty() && output_.room() >= kTlsRecordRoom) {
    // A frame's bytes have to be there until they are encrypted, and it is gone before.
    const std::shared_ptr<const void> owner = frames_.front().payload.owner;
    const Piece record = NextRecord();
    if (tls_->Write(record.data, record.size) == TlsSession::State::kDone) continue;
    Close(End::kLocal, tls_->why());
    return false;
  }
  return true;
}

Piece Link::NextRecord() {
  const Piece head = Head();
  if (head.size >= kTlsRecord) {
    Went(kTlsRecord);
    return {head.data, kTlsRecord};
  }
  std::size_t bytes = 0;
  while (bytes < kTlsRecord && !frames_.empty()) {
    const Piece next = Head();
    const std::size_t taken = std::min(next.size, kTlsRecord - bytes);
    if (taken > 0) std::memcpy(loop_->record() + bytes, next.data, taken);
    bytes += taken;
    Went(taken);
  }
  return {loop_->record(), bytes};
}

Piece Link::Head() const {
  const Frame& frame = frames_.front();
  const Piece whole = piece_ == 0 ? Piece{frame.header.data(), kHeaderBytes} : frame.payload.pieces[piece_ - 1];
  return {whole.data + piece_bytes_, whole.size - piece_bytes_};
}

void Link::Went(std::size_t bytes) {
  for (;;) {
    const std::size_t taken = std::min(bytes, Head().size);
    piece_bytes_ += taken;
    bytes -= taken;
    if (Head().size > 0) return;
    piece_bytes_ = 0;
    if (++piece_ <= frames_.front().payload.pieces.size()) {
      if (bytes == 0 && Head().size > 0) return;
      continue;
    }
    piece_ = 0;
    const std::size_t payload = frames_.front().bytes;
    frames_.pop_front();
    stuck_from_ = Clock::now();
    OnSent(payload);
    if (frames_.empty() || bytes == 0) return;
  }
}

std::optional<std::size_t> Link::Push(const Piece* pieces, std::size_t count) {
  std::array<iovec, kMostPieces> vectors;
  for (std::size_t i = 0; i < count; ++i) vectors[i] = {const_cast<char*>(pieces[i].data), pieces[i].size};
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) {
    traffic_->out.Add(static_cast<std::size_t>(sent));
    return static_cast<std::size_t>(sent);
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
    WaitToWrite();
  } else {
    Close(End::kPeer, std::strerror(errno));
  }
  return std::nullopt;
}

}  // namespace afo::psplus
