// A link that takes its time: carries every TCP connection that the kernel redirects here to where
// it was going, each byte `delay` later than it came, in both directions. For kernels without
// netem.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/write.hpp"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"

namespace capstan::integration {
namespace {

namespace asio = ::boost::asio;
using asio::ip::tcp;
using Error = ::boost::system::error_code;

// SO_ORIGINAL_DST of <linux/netfilter_ipv4.h>, which can't be included beside <netinet/in.h>.
constexpr int kOriginalDestination = 80;
// What may be under way in one direction of a connection: a second at 64 MiB/s.
constexpr size_t kMaxUnderWay = 64 << 20;
constexpr size_t kChunk = 64 << 10;

// One direction of a connection; holds both sockets.
class Direction : public std::enable_shared_from_this<Direction> {
 public:
  Direction(std::shared_ptr<tcp::socket> from, std::shared_ptr<tcp::socket> to, const Clock* clock,
            absl::Duration delay)
      : from_(std::move(from)),
        to_(std::move(to)),
        clock_(clock),
        delay_(delay),
        timer_(from_->get_executor()) {}

  void Read() {
    reading_ = true;
    buffer_.resize(kChunk);
    from_->async_read_some(asio::buffer(buffer_),
                           [self = shared_from_this()](const Error& error, size_t size) {
                             self->reading_ = false;
                             self->Took(error ? "" : self->buffer_.substr(0, size));
                           });
  }

 private:
  struct Chunk {
    BootTime due;
    // Empty at the end of what comes.
    std::string bytes;
  };

  void Took(std::string bytes) {
    const bool end = bytes.empty();
    under_way_ += bytes.size();
    chunks_.push_back({clock_->Read().boot + delay_, std::move(bytes)});
    if (chunks_.size() == 1) Await();
    ended_ = ended_ || end;
    if (!ended_ && under_way_ < kMaxUnderWay) Read();
  }

  void Await() {
    timer_.expires_after(absl::ToChronoNanoseconds(
        std::max(chunks_.front().due - clock_->Read().boot, absl::ZeroDuration())));
    timer_.async_wait([self = shared_from_this()](const Error&) { self->Write(); });
  }

  void Write() {
    if (chunks_.front().bytes.empty()) {
      Error ignored;
      to_->shutdown(tcp::socket::shutdown_send, ignored);
      return;
    }
    asio::async_write(*to_, asio::buffer(chunks_.front().bytes),
                      [self = shared_from_this()](const Error& error, size_t) {
                        if (!error) return self->Wrote();
                        Error ignored;
                        self->from_->close(ignored);
                        self->to_->close(ignored);
                      });
  }

  void Wrote() {
    under_way_ -= chunks_.front().bytes.size();
    chunks_.pop_front();
    if (!chunks_.empty()) Await();
    if (!ended_ && !reading_ && under_way_ < kMaxUnderWay) Read();
  }

  const std::shared_ptr<tcp::socket> from_;
  const std::shared_ptr<tcp::socket> to_;
  const Clock* const clock_;
  const absl::Duration delay_;
  asio::steady_timer timer_;
  std::string buffer_;
  std::deque<Chunk> chunks_;
  size_t under_way_ = 0;
  bool reading_ = false;
  bool ended_ = false;
};

class Relay {
 public:
  Relay(asio::io_context* io, unsigned short port, int mark, const Clock* clock,
        absl::Duration delay)
      : io_(io),
        clock_(clock),
        acceptor_(*io, tcp::endpoint(tcp::v4(), port)),
        mark_(mark),
        delay_(delay) {}

  void Accept() {
    auto near = std::make_shared<tcp::socket>(*io_);
    acceptor_.async_accept(*near, [this, near](const Error& error) {
      if (!error) Connect(near);
      Accept();
    });
  }

 private:
  void Connect(const std::shared_ptr<tcp::socket>& near) {
    sockaddr_in target = {};
    socklen_t size = sizeof(target);
    if (getsockopt(near->native_handle(), SOL_IP, kOriginalDestination, &target, &size) != 0)
      return;
    auto far = std::make_shared<tcp::socket>(*io_);
    far->open(tcp::v4());
    // By its mark the kernel knows what is on its way already.
    if (setsockopt(far->native_handle(), SOL_SOCKET, SO_MARK, &mark_, sizeof(mark_)) != 0) return;
    Error ignored;
    far->set_option(tcp::no_delay(true), ignored);
    near->set_option(tcp::no_delay(true), ignored);
    const tcp::endpoint endpoint(asio::ip::address_v4(ntohl(target.sin_addr.s_addr)),
                                 ntohs(target.sin_port));
    far->async_connect(endpoint, [near, far, clock = clock_, delay = delay_](const Error& error) {
      if (error) return;
      std::make_shared<Direction>(near, far, clock, delay)->Read();
      std::make_shared<Direction>(far, near, clock, delay)->Read();
    });
  }

  asio::io_context* const io_;
  const Clock* const clock_;
  tcp::acceptor acceptor_;
  const int mark_;
  const absl::Duration delay_;
};

}  // namespace
}  // namespace capstan::integration

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: delay_relay PORT MARK MILLISECONDS\n");
    return 64;
  }
  boost::asio::io_context io;
  const capstan::SystemClock clock;
  capstan::integration::Relay relay(&io, static_cast<unsigned short>(std::atoi(argv[1])),
                                    std::atoi(argv[2]), &clock,
                                    absl::Milliseconds(std::atoi(argv[3])));
  relay.Accept();
  // Whoever started it waits for this on descriptor 3.
  if (write(3, "r", 1) != 1) return 74;
  io.run();
  return 0;
}
