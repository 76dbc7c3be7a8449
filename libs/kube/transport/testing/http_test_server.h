#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_HTTP_TEST_SERVER_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_HTTP_TEST_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "libs/kube/transport/testing/scripted_exchange.h"

namespace capstan::kube {

class ServerCore;

struct HttpTestServerOptions {
  // PEM; empty chain: no TLS, and so HTTP/1.1.
  std::string chain_pem;
  std::string key_pem;
  // The authority of client certificates, PEM, which are then required.
  std::string client_ca_pem;
  // By ALPN; else HTTP/1.1.
  bool http2 = true;
  bool tls12 = false;
  uint32_t max_streams = 250;
};

// HTTP/2 (nghttp2) or HTTP/1.1 on a port of 127.0.0.1, over OpenSSL, on one thread of its own.
// Thread-safe; dies if the machine gives no socket.
class HttpTestServer {
 public:
  HttpTestServer(HttpTestServerOptions options, Script script);
  ~HttpTestServer();
  HttpTestServer(const HttpTestServer&) = delete;
  HttpTestServer& operator=(const HttpTestServer&) = delete;

  int port() const;
  // Connections that were made so far.
  int connections() const;
  // Requests that were answered with REFUSED_STREAM so far.
  int refused() const;

  // Closes all connections, without a word, and takes no more until Reopen, which listens at the
  // same port. They return when it is done.
  void Close();
  void Reopen();
  // Says GOAWAY on all connections, which then live on for the streams they have.
  void GoAway();
  // The next `count` requests of HTTP/2 are refused, unread.
  void Refuse(int count);
  // Closes the connection of the next request as soon as it has come.
  void DropNext();

 private:
  const std::shared_ptr<ServerCore> core_;
  std::thread thread_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_HTTP_TEST_SERVER_H_
