#ifndef CAPSTAN_INTEGRATION_MONITORING_HTTP_REQUEST_H_
#define CAPSTAN_INTEGRATION_MONITORING_HTTP_REQUEST_H_

#include <string>

namespace capstan::integration {

struct HttpAnswer {
  // 0 without an answer.
  long status = 0;
  std::string content_type;
  std::string body;
};

// Asks a URL, its path as it is written, without a proxy, for at most 10 s. `body` is sent with
// methods that have one. Who answers for an `https` URL must have a certificate that the roots in
// the file `roots` (PEM) vouch for, whatever name is in it.
HttpAnswer HttpRequest(const std::string& method, const std::string& url,
                       const std::string& body = "", const std::string& roots = "");
HttpAnswer HttpGet(const std::string& url, const std::string& roots = "");

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_MONITORING_HTTP_REQUEST_H_
