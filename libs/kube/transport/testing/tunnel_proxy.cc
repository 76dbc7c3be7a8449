#include "libs/kube/transport/testing/tunnel_proxy.h"

#include <sys/socket.h>

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/read_until.hpp"
#include "boost/asio/write.hpp"
#include "boost/system/error_code.hpp"

namespace capstan::kube {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int kOk = 200;

// Until one of the two has no more.
void Copy(tcp::socket* from, tcp::socket* to) {
  char bytes[16384];
  boost::system::error_code error;
  while (!error) {
    const size_t read = from->read_some(asio::buffer(bytes), error);
    if (!error) asio::write(*to, asio::buffer(bytes, read), error);
  }
  to->shutdown(tcp::socket::shutdown_send, error);
}

// Empty if the peer ended before.
std::string Take(tcp::socket* socket, size_t size) {
  std::string bytes(size, '\0');
  boost::system::error_code error;
  asio::read(*socket, asio::buffer(bytes), error);
  return error ? std::string() : bytes;
}

bool Say(tcp::socket* socket, absl::string_view bytes) {
  boost::system::error_code error;
  asio::write(*socket, asio::buffer(bytes.data(), bytes.size()), error);
  return !error;
}

// A byte that counts the bytes after it.
std::string TakeCounted(tcp::socket* socket) {
  const std::string count = Take(socket, 1);
  return count.empty() ? "" : Take(socket, static_cast<uint8_t>(count[0]));
}

}  // namespace

TunnelProxy::TunnelProxy(TunnelProtocol protocol, int target_port)
    : TunnelProxy(protocol, target_port, kOk) {}

TunnelProxy::TunnelProxy(int target_port, int status)
    : TunnelProxy(TunnelProtocol::kHttp, target_port, status) {}

TunnelProxy::TunnelProxy(TunnelProtocol protocol, int target_port, int status)
    : protocol_(protocol),
      target_port_(target_port),
      status_(status),
      acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
  port_ = acceptor_.local_endpoint().port();
  thread_ = std::thread([this] { Serve(); });
}

TunnelProxy::~TunnelProxy() {
  if (thread_.joinable()) (void)TakeHead();
}

std::string TunnelProxy::TakeHead() {
  // Wakes who waits for a connection.
  ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
  thread_.join();
  return head_;
}

void TunnelProxy::Serve() {
  for (;;) {
    tcp::socket client(context_);
    boost::system::error_code error;
    acceptor_.accept(client, error);
    if (error) return;
    if (protocol_ == TunnelProtocol::kHttp ? AgreeByHttp(&client) : AgreeBySocks5(&client)) {
      Tunnel(&client);
    }
  }
}

bool TunnelProxy::AgreeByHttp(tcp::socket* client) {
  boost::system::error_code error;
  std::string head;
  asio::read_until(*client, asio::dynamic_buffer(head), "\r\n\r\n", error);
  head_ = head;
  return Say(client, absl::StrCat("HTTP/1.1 ", status_, " Said\r\n\r\n")) && status_ == kOk;
}

bool TunnelProxy::AgreeBySocks5(tcp::socket* client) {
  constexpr char kPassword = 2;
  constexpr char kByName = 3;
  (void)Take(client, 1);
  std::string user;
  if (absl::StrContains(TakeCounted(client), kPassword)) {
    Say(client, {"\x05\x02", 2});
    (void)Take(client, 1);
    user = TakeCounted(client);
    absl::StrAppend(&user, ":", TakeCounted(client), "@");
    Say(client, {"\x01\x00", 2});
  } else {
    Say(client, {"\x05\x00", 2});
  }
  const std::string request = Take(client, 4);
  if (request.empty()) return false;
  std::string host;
  if (request[3] == kByName) {
    host = TakeCounted(client);
  } else {
    for (const char part : Take(client, 4)) {
      absl::StrAppend(&host, host.empty() ? "" : ".", static_cast<uint8_t>(part));
    }
  }
  const std::string port = Take(client, 2);
  if (port.empty()) return false;
  head_ = absl::StrCat(user, host, ":",
                       static_cast<uint8_t>(port[0]) * 256 + static_cast<uint8_t>(port[1]));
  return Say(client, {"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", 10});
}

void TunnelProxy::Tunnel(tcp::socket* client) {
  boost::system::error_code error;
  tcp::socket server(context_);
  server.connect({asio::ip::address_v4::loopback(), static_cast<uint16_t>(target_port_)}, error);
  if (error) return;
  std::thread back([&] { Copy(&server, client); });
  Copy(client, &server);
  back.join();
}

}  // namespace capstan::kube
