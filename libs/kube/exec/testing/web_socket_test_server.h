#ifndef CAPSTAN_LIBS_KUBE_EXEC_TESTING_WEB_SOCKET_TEST_SERVER_H_
#define CAPSTAN_LIBS_KUBE_EXEC_TESTING_WEB_SOCKET_TEST_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::kube {

// One connection as a script sees it, from its request on. For the script's thread alone; what it
// calls blocks until it is done, or the client or the server is gone.
class ServedWebSocket {
 public:
  virtual ~ServedWebSocket() = default;

  // Of the request; empty if there is none.
  virtual std::string target() const = 0;
  virtual std::string Header(absl::string_view name) const = 0;

  // Answers the upgrade; one of the two.
  virtual void Refuse(int status, const std::string& body) = 0;
  virtual void Accept(const std::string& subprotocol) = 0;

  // False: the client is gone.
  virtual bool Send(absl::string_view message) = 0;
  // Bytes past WebSocket's framing.
  virtual void SendRaw(absl::string_view bytes) = 0;
  // Absent: the client has closed, or is gone.
  virtual absl::optional<std::string> Receive() = 0;
  // Until there is something to receive, which stays there.
  virtual void WaitReadable() = 0;
  // Of the client's close; 0 if there was none.
  virtual int close_code() const = 0;
  // Pings that Receive has answered.
  virtual int pings() const = 0;
  virtual void Close(int code, const std::string& reason) = 0;
  // Resets the connection.
  virtual void Break() = 0;
};

struct WebSocketTestServerOptions {
  // PEM; empty chain: no TLS.
  std::string chain_pem;
  std::string key_pem;
  // The authority of client certificates, PEM, which are then required.
  std::string client_ca_pem;
};

// WebSockets at a port of 127.0.0.1, each with a thread that runs the script. When the script
// returns, the connection is closed without a word. Dies if the machine gives no socket.
class WebSocketTestServer {
 public:
  using Script = std::function<void(ServedWebSocket*)>;

  WebSocketTestServer(const WebSocketTestServerOptions& options, Script script);
  // Closes all connections, and waits for the scripts.
  ~WebSocketTestServer();
  WebSocketTestServer(const WebSocketTestServer&) = delete;
  WebSocketTestServer& operator=(const WebSocketTestServer&) = delete;

  int port() const;

 private:
  class Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_TESTING_WEB_SOCKET_TEST_SERVER_H_
