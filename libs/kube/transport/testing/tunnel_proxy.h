#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_TUNNEL_PROXY_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_TUNNEL_PROXY_H_

#include <string>
#include <thread>

#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"

namespace capstan::kube {

enum class TunnelProtocol {
  // CONNECT of HTTP.
  kHttp,
  // CONNECT of SOCKS 5 (RFC 1928), with a user and a password (RFC 1929) if the client has them.
  kSocks5,
};

// A proxy at a port of 127.0.0.1 that makes tunnels, one after the other, to a port of 127.0.0.1,
// whatever it was asked for. Dies if the machine gives no socket.
class TunnelProxy {
 public:
  TunnelProxy(TunnelProtocol protocol, int target_port);
  // One of HTTP that answers with `status`, and has a tunnel if that is 200.
  TunnelProxy(int target_port, int status);
  // The tunnels' ends must be closed.
  ~TunnelProxy();
  TunnelProxy(const TunnelProxy&) = delete;
  TunnelProxy& operator=(const TunnelProxy&) = delete;

  int port() const { return port_; }
  // What was asked for last, once its tunnel has ended: the lines of an HTTP request's head, or
  // `user:password@host:port`. No tunnel is made any more.
  std::string TakeHead();

 private:
  using Socket = boost::asio::ip::tcp::socket;

  TunnelProxy(TunnelProtocol protocol, int target_port, int status);
  void Serve();
  // Whether the client is to have its tunnel.
  bool AgreeByHttp(Socket* client);
  bool AgreeBySocks5(Socket* client);
  void Tunnel(Socket* client);

  const TunnelProtocol protocol_;
  const int target_port_;
  const int status_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  int port_ = 0;
  std::string head_;
  std::thread thread_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_TUNNEL_PROXY_H_
