#include "libs/kube/exec/testing/web_socket_test_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/core.hpp"
#include "boost/beast/http.hpp"
#include "boost/beast/ssl.hpp"
#include "boost/beast/websocket.hpp"
#include "boost/beast/websocket/ssl.hpp"
#include "libs/safe_path/safe_path.h"

namespace capstan::kube {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using asio::ip::tcp;

constexpr int kHttp11 = 11;

// `Stream` is over a socket, which it does not own.
template <typename Stream>
class Served final : public ServedWebSocket {
 public:
  template <typename... Args>
  explicit Served(std::function<void()> reset, tcp::socket* socket, Args&&... args)
      : reset_(std::move(reset)), stream_(*socket, std::forward<Args>(args)...) {
    stream_.control_callback([this](websocket::frame_type frame, beast::string_view) {
      if (frame == websocket::frame_type::ping) ++pings_;
    });
  }

  Stream& stream() { return stream_; }
  bool ReadRequest() {
    beast::error_code error;
    http::read(stream_.next_layer(), buffer_, request_, error);
    return !error;
  }

  std::string target() const override { return std::string(request_.target()); }
  std::string Header(absl::string_view name) const override {
    return std::string(request_[beast::string_view(name.data(), name.size())]);
  }

  void Refuse(int status, const std::string& body) override {
    http::response<http::string_body> response(static_cast<http::status>(status), kHttp11);
    response.set(http::field::content_type, "application/json");
    response.keep_alive(false);
    response.body() = body;
    response.prepare_payload();
    beast::error_code error;
    http::write(stream_.next_layer(), response, error);
  }

  void Accept(const std::string& subprotocol) override {
    stream_.set_option(
        websocket::stream_base::decorator([subprotocol](websocket::response_type& response) {
          if (!subprotocol.empty()) {
            response.set(http::field::sec_websocket_protocol, subprotocol);
          }
        }));
    stream_.binary(true);
    stream_.auto_fragment(false);
    beast::error_code error;
    stream_.accept(request_, error);
  }

  bool Send(absl::string_view message) override {
    beast::error_code error;
    stream_.write(asio::buffer(message.data(), message.size()), error);
    return !error;
  }

  void SendRaw(absl::string_view bytes) override {
    beast::error_code error;
    asio::write(stream_.next_layer(), asio::buffer(bytes.data(), bytes.size()), error);
  }

  absl::optional<std::string> Receive() override {
    beast::error_code error;
    beast::flat_buffer message;
    stream_.read(message, error);
    if (error) return absl::nullopt;
    return beast::buffers_to_string(message.data());
  }

  void WaitReadable() override {
    beast::error_code error;
    beast::get_lowest_layer(stream_).wait(tcp::socket::wait_read, error);
  }

  int close_code() const override { return stream_.reason().code; }
  int pings() const override { return pings_; }

  void Close(int code, const std::string& reason) override {
    beast::error_code error;
    stream_.close(websocket::close_reason(static_cast<websocket::close_code>(code), reason), error);
  }

  void Break() override { reset_(); }

 private:
  const std::function<void()> reset_;
  Stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  int pings_ = 0;
};

using Plain = websocket::stream<tcp::socket&>;
using Secure = websocket::stream<beast::ssl_stream<tcp::socket&>>;

}  // namespace

class WebSocketTestServer::Core {
 public:
  Core(const WebSocketTestServerOptions& options, Script script)
      : script_(std::move(script)),
        tls_(asio::ssl::context::tls_server),
        is_secure_(!options.chain_pem.empty()),
        acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    if (is_secure_) {
      tls_.use_certificate_chain(asio::buffer(options.chain_pem));
      tls_.use_private_key(asio::buffer(options.key_pem), asio::ssl::context::pem);
    }
    if (!options.client_ca_pem.empty()) {
      tls_.add_certificate_authority(asio::buffer(options.client_ca_pem));
      tls_.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
    }
    port_ = acceptor_.local_endpoint().port();
    thread_ = std::thread([this] { Accept(); });
  }

  ~Core() {
    // Wakes who waits for a connection.
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
    {
      absl::MutexLock lock(&mutex_);
      for (const auto& [socket, handle] : open_) ::shutdown(handle.get(), SHUT_RDWR);
    }
    for (std::thread& thread : scripts_) thread.join();
  }

  int port() const { return port_; }

 private:
  void Accept() {
    for (;;) {
      auto socket = std::make_shared<tcp::socket>(context_);
      beast::error_code error;
      acceptor_.accept(*socket, error);
      if (error) return;
      {
        absl::MutexLock lock(&mutex_);
        open_.emplace(socket.get(), UniqueFd(::dup(socket->native_handle())));
      }
      scripts_.emplace_back([this, socket] { Serve(socket.get()); });
    }
  }

  void Serve(tcp::socket* socket) {
    const auto reset = [this, socket] { Close(socket, /*reset=*/true); };
    if (is_secure_) {
      Served<Secure> served(reset, socket, tls_);
      beast::error_code error;
      served.stream().next_layer().handshake(asio::ssl::stream_base::server, error);
      if (!error && served.ReadRequest()) script_(&served);
    } else {
      Served<Plain> served(reset, socket);
      if (served.ReadRequest()) script_(&served);
    }
    Close(socket, /*reset=*/false);
  }

  void Close(tcp::socket* socket, bool reset) {
    beast::error_code error;
    if (reset) socket->set_option(asio::socket_base::linger(true, 0), error);
    socket->close(error);
    absl::MutexLock lock(&mutex_);
    open_.erase(socket);
  }

  const Script script_;
  asio::io_context context_;
  asio::ssl::context tls_;
  const bool is_secure_;
  tcp::acceptor acceptor_;
  int port_ = 0;
  std::thread thread_;
  // Of that thread, then of the destructor's.
  std::vector<std::thread> scripts_;
  absl::Mutex mutex_;
  // With a descriptor of our own: the socket is its thread's, and Beast closes it at will.
  std::map<tcp::socket*, UniqueFd> open_ ABSL_GUARDED_BY(mutex_);
};

WebSocketTestServer::WebSocketTestServer(const WebSocketTestServerOptions& options, Script script)
    : core_(std::make_unique<Core>(options, std::move(script))) {}
WebSocketTestServer::~WebSocketTestServer() = default;

int WebSocketTestServer::port() const { return core_->port(); }

}  // namespace capstan::kube
