#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_TEST_SERVER_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_TEST_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace capstan::data_loader {

// A request as it came; header names in lower case.
struct TestRequest {
  std::string target;
  std::map<std::string, std::string> headers;
};

// An answer as it goes out, right or wrong: the server corrects nothing.
struct TestReply {
  int status = 200;
  std::map<std::string, std::string> headers;
  std::string body;
  // Added unless the headers have one; -1: none.
  int64_t content_length = -2;
  // Closes the connection after this many bytes of the body.
  int64_t cut_after = -1;
};

// A web server on a port of 127.0.0.1, for tests that need its faults. One connection at a time, or
// one on a thread of its own, each for one request.
class HttpTestServer {
 public:
  using Handler = std::function<TestReply(const TestRequest&)>;

  // `handler` is called on the server's thread; with `concurrent` on the connection's.
  explicit HttpTestServer(Handler handler, bool concurrent = false);
  ~HttpTestServer();

  int port() const;
  // `http://127.0.0.1:<port>`.
  std::string url() const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

// Serves objects as a good server does: ETag, ranges, conditions. For handlers to begin with.
class TestObjects {
 public:
  void Put(const std::string& path, const std::string& bytes);
  void Remove(const std::string& path);
  TestReply Serve(const TestRequest& request) const;

 private:
  struct Object {
    std::string bytes;
    int revision = 0;
  };
  std::map<std::string, Object> objects_;
  int revisions_ = 0;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_TEST_SERVER_H_
