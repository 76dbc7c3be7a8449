#ifndef CAPSTAN_LIBS_KUBE_EXEC_TESTING_CONNECT_PROXY_H_
#define CAPSTAN_LIBS_KUBE_EXEC_TESTING_CONNECT_PROXY_H_

#include <string>
#include <thread>

#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"

namespace capstan::kube {

// An HTTP proxy at a port of 127.0.0.1 that makes tunnels, one after the other, to a port of
// 127.0.0.1, whatever it was asked for. Dies if the machine gives no socket.
class ConnectProxy {
 public:
  // Answers with `status`, and has a tunnel if that is 200.
  ConnectProxy(int target_port, int status);
  // The tunnels' ends must be closed.
  ~ConnectProxy();
  ConnectProxy(const ConnectProxy&) = delete;
  ConnectProxy& operator=(const ConnectProxy&) = delete;

  int port() const { return port_; }
  // Lines of the last request's head, once its tunnel has ended.
  std::string TakeHead();

 private:
  void Serve();
  void Tunnel(boost::asio::ip::tcp::socket* client);

  const int target_port_;
  const int status_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  int port_ = 0;
  std::string head_;
  std::thread thread_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_TESTING_CONNECT_PROXY_H_
