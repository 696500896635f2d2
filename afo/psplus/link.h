// One connection's bytes, of either end: frames in and out of a socket, encrypted or not.
//
// Lives on its loop and is touched only there. Each wait of it keeps it alive; once it has ended it waits for nothing.
#pragma once

#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afo/psplus/buffer.h"
#include "afo/psplus/frame.h"
#include "afo/psplus/loop.h"
#include "afo/psplus/statistics.h"
#include "afo/psplus/tls.h"

namespace afo::psplus {

class Link : public std::enable_shared_from_this<Link> {
 public:
  using Clock = std::chrono::steady_clock;
  enum class End { kPeer, kHandshake, kMalformed, kLateFrame, kSlowReader, kLocal };

  // `tls`: none of a plain connection. `most`: bytes of a payload. `traffic` outlives it.
  Link(std::shared_ptr<Loop> loop, asio::ip::tcp::socket socket, std::shared_ptr<TlsContext> tls, std::size_t most,
       Traffic* traffic);
  virtual ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Shakes hands, and reads from then on.
  void Open();
  void Send(const FrameHeader& header, Payload payload);
  // Ends it where a deadline is over.
  void Check(Clock::time_point now, std::chrono::milliseconds frame, std::chrono::milliseconds reader);
  // Goes on with a frame that OnHeader did not let in.
  void Resume();
  // Closes the socket and calls OnEnd, unless that was done.
  void Close(End end, const std::string& why);

  bool ended() const { return ended_; }
  Loop& loop() { return *loop_; }
  const std::shared_ptr<Loop>& shared_loop() const { return loop_; }

 protected:
  struct Received {
    FrameHeader header;
    // Never empty.
    std::shared_ptr<Buffer> payload;
    // Of its first byte.
    Clock::time_point since;
  };
  enum class Admission { kGood, kLater, kWrong };

  // The other end is known.
  virtual void OnOpen() = 0;
  // A header came. kLater: nothing is read until Resume, which asks again. kWrong: ends the connection.
  virtual Admission OnHeader(const FrameHeader& header) = 0;
  virtual void OnFrame(Received received) = 0;
  // A frame of so many bytes of payload is sent, or encrypted and about to be.
  virtual void OnSent(std::size_t payload) = 0;
  // Frames that were not sent are never.
  virtual void OnEnd(End end, const std::string& why) = 0;

  // Bytes that a payload may have from the next header on.
  void set_most(std::size_t most) { most_ = most; }

 private:
  struct Frame {
    HeaderBytes header;
    Payload payload;
    std::size_t bytes;
  };
  enum class Flow { kGoes, kStops };

  void HoldBlock();
  void Shake();
  void WaitToRead();
  void WaitToWrite();
  void ReadSome();
  Flow ReadOnce();
  // Receives into the payload itself, or into what the loop's connections share.
  std::optional<std::size_t> Receive(char* to, std::size_t size);
  // Makes frames of all that came; what cannot be used now is kept.
  Flow Use();
  Flow Admit();
  Flow Took(std::size_t bytes);
  Flow Deliver();
  Piece Wanted() const;
  TlsSession::Step Take(char* to, std::size_t size);
  void KeepRest();

  void WriteSome();
  Flow WritePlain();
  Flow WriteEncrypted();
  bool Encrypt();
  // The next plain bytes of the frames, at most a record; they are sent, as far as the frames know.
  Piece NextRecord();
  Piece Head() const;
  void Went(std::size_t bytes);
  // Bytes sent; nothing where the socket takes none now, or has ended.
  std::optional<std::size_t> Push(const Piece* pieces, std::size_t count);

  const std::shared_ptr<Loop> loop_;
  asio::ip::tcp::socket socket_;
  Traffic* const traffic_;
  TlsInput input_;
  TlsOutput output_;
  std::unique_ptr<char[]> block_;
  std::unique_ptr<TlsSession> tls_;
  std::size_t most_;
  bool open_ = false, ended_ = false, paused_ = false;
  bool waits_to_read_ = false, waits_to_write_ = false, writes_ = false, uses_ = false;

  // The frame that comes in.
  HeaderBytes head_{};
  std::size_t head_bytes_ = 0;
  FrameHeader header_;
  std::shared_ptr<Buffer> payload_;
  std::size_t payload_bytes_ = 0;
  Clock::time_point first_byte_, deadline_from_;
  std::vector<char> rest_;

  // Those that go out; of the first so many bytes went.
  std::deque<Frame> frames_;
  std::size_t piece_ = 0, piece_bytes_ = 0;  // piece 0 is the header
  Clock::time_point stuck_from_;
};

}  // namespace afo::psplus
