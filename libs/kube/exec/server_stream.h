// TCP, and TLS over it if need be, as one type for Beast.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_SERVER_STREAM_H_
#define CAPSTAN_LIBS_KUBE_EXEC_SERVER_STREAM_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "boost/asio/buffer.hpp"
#include "boost/asio/error.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/beast/core/buffer_traits.hpp"
#include "boost/beast/core/error.hpp"
#include "boost/beast/core/role.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/ssl.hpp"
#include "boost/beast/websocket/ssl.hpp"
#include "boost/beast/websocket/teardown.hpp"

namespace capstan::kube {

// An AsyncStream. Not thread-safe.
//
// A write that fails is told as if it had succeeded, and write_failed() says so: Beast reads
// nothing more after a failed write, while what the server has said before it hung up, such as a
// command's exit code, may still lie unread.
class ServerStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;
  using next_layer_type = boost::beast::tcp_stream;
  using Tls = boost::beast::ssl_stream<boost::beast::tcp_stream&>;

  explicit ServerStream(boost::asio::io_context& context) : tcp_(context) {}
  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;

  executor_type get_executor() noexcept { return tcp_.get_executor(); }
  next_layer_type& next_layer() noexcept { return tcp_; }
  const next_layer_type& next_layer() const noexcept { return tcp_; }

  // Before anything is read or written.
  void StartTls(SSL_CTX* context) {
    // Asio's own is to hold a share of it.
    SSL_CTX_up_ref(context);
    context_ = std::make_unique<boost::asio::ssl::context>(context);
    tls_ = std::make_unique<Tls>(tcp_, *context_);
  }
  // Null: none.
  Tls* tls() { return tls_.get(); }
  const boost::beast::error_code& write_error() const { return write_error_; }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_ != nullptr) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }

  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    const size_t size = boost::beast::buffer_bytes(buffers);
    if (write_error_) {
      boost::asio::post(get_executor(), [handler = std::forward<Handler>(handler), size]() mutable {
        handler(boost::beast::error_code(), size);
      });
      return;
    }
    auto told = [this, size, handler = std::forward<Handler>(handler)](
                    boost::beast::error_code error, size_t written) mutable {
      if (error && error != boost::asio::error::operation_aborted) {
        write_error_ = error;
        return handler(boost::beast::error_code(), size);
      }
      handler(error, written);
    };
    if (tls_ != nullptr) {
      tls_->async_write_some(buffers, std::move(told));
    } else {
      tcp_.async_write_some(buffers, std::move(told));
    }
  }

  friend void teardown(boost::beast::role_type role, ServerStream& stream,
                       boost::beast::error_code& error) {
    using boost::beast::websocket::teardown;
    teardown(role, stream.tcp_.socket(), error);
  }
  // TLS's own farewell says nothing that the close of the WebSocket has not, and might wait.
  template <typename Handler>
  friend void async_teardown(boost::beast::role_type role, ServerStream& stream,
                             Handler&& handler) {
    using boost::beast::websocket::async_teardown;
    async_teardown(role, stream.tcp_.socket(), std::forward<Handler>(handler));
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::unique_ptr<boost::asio::ssl::context> context_;
  std::unique_ptr<Tls> tls_;
  boost::beast::error_code write_error_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_SERVER_STREAM_H_
