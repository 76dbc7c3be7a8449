// One connection of HttpTestServer.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_SERVER_CONNECTION_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_SERVER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libs/kube/transport/transport.h"
#include "nghttp2/nghttp2.h"
#include "openssl/ssl.h"

namespace capstan::kube {

// What the connections of a server share; of its thread.
struct ConnectionHooks {
  // A whole request has come. False: close the connection.
  std::function<bool(int32_t stream, HttpRequest request)> on_request;
  // The client has gone from it, or the connection broke.
  std::function<void(int32_t stream)> on_gone;
  // Whether to refuse the stream that begins.
  std::function<bool()> refuse;
};

// Of the server's thread.
class ServerConnection {
 public:
  // Takes `fd`; `ssl` may be null.
  ServerConnection(int fd, SSL* ssl, uint32_t max_streams, ConnectionHooks hooks);
  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  int fd() const { return fd_; }
  bool wants_out() const { return wants_out_; }
  bool open() const { return open_; }

  // Reads and writes what can be; open() says whether it still is.
  void Pump();

  void Head(int32_t stream, int status, const std::vector<HttpHeader>& headers);
  void Bytes(int32_t stream, const std::string& bytes);
  void End(int32_t stream);
  void Break(int32_t stream);
  void GoAway();

 private:
  struct Stream {
    HttpRequest request;
    std::string body;
    size_t sent = 0;
    bool ended = false;
    bool headed = false;
    bool waits = false;
    bool refused = false;
  };

  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* user);
  static int OnData(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* data, size_t size,
                    void* user);
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int OnStreamClose(nghttp2_session*, int32_t stream, uint32_t, void* user);
  static ssize_t ReadBody(nghttp2_session*, int32_t stream, uint8_t* out, size_t size,
                          uint32_t* flags, nghttp2_data_source*, void* user);

  void StartHttp2();
  // Bytes of the client's that were read.
  void Take(const char* bytes, size_t size);
  void TakeHttp1();
  void Flush();
  // -1: later, and want_out_ says for what; 0: never.
  long Read(char* out, size_t size);
  long Write(const char* bytes, size_t size);
  void Lose();

  const int fd_;
  SSL* const ssl_;
  const uint32_t max_streams_;
  const ConnectionHooks hooks_;
  bool open_ = true;
  bool wants_out_ = false;
  bool begun_ = false;
  nghttp2_session* http2_ = nullptr;
  std::map<int32_t, Stream> streams_;
  // Bytes to write.
  std::string out_;
  size_t out_sent_ = 0;
  // HTTP/1.1: bytes that were read and are no whole request yet; the request's number; whether its
  // response is chunked, or how much is missing to what its head has promised.
  std::string in_;
  int32_t request_ = 0;
  bool chunked_ = false;
  int64_t promised_ = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_SERVER_CONNECTION_H_
