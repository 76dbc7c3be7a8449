#include "libs/kube/exec/testing/connect_proxy.h"

#include <sys/socket.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/read_until.hpp"
#include "boost/asio/write.hpp"
#include "boost/system/error_code.hpp"

namespace capstan::kube {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

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

}  // namespace

ConnectProxy::ConnectProxy(int target_port, int status)
    : target_port_(target_port),
      status_(status),
      acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
  port_ = acceptor_.local_endpoint().port();
  thread_ = std::thread([this] { Serve(); });
}

ConnectProxy::~ConnectProxy() {
  if (thread_.joinable()) (void)TakeHead();
}

std::string ConnectProxy::TakeHead() {
  // Wakes who waits for a connection.
  ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
  thread_.join();
  return head_;
}

void ConnectProxy::Serve() {
  for (;;) {
    tcp::socket client(context_);
    boost::system::error_code error;
    acceptor_.accept(client, error);
    if (error) return;
    Tunnel(&client);
  }
}

void ConnectProxy::Tunnel(tcp::socket* client) {
  boost::system::error_code error;
  std::string head;
  asio::read_until(*client, asio::dynamic_buffer(head), "\r\n\r\n", error);
  head_ = head;
  asio::write(*client, asio::buffer(absl::StrCat("HTTP/1.1 ", status_, " Said\r\n\r\n")), error);
  if (error || status_ != 200) return;
  tcp::socket server(context_);
  server.connect({asio::ip::address_v4::loopback(), static_cast<uint16_t>(target_port_)}, error);
  if (error) return;
  std::thread back([&] { Copy(&server, client); });
  Copy(client, &server);
  back.join();
}

}  // namespace capstan::kube
