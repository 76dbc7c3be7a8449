// What comes back besides objects.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_RESPONSE_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_RESPONSE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

struct ApiResponse {
  // 200 to 299.
  int http_status = 0;
  std::vector<HttpHeader> headers;
  std::string body;
};

// The texts of `Warning: 299 - "text"` (RFC 7234, 5.5, as apimachinery's util/net reads it):
// deprecated APIs, fields that were passed over. At most 32 of 1 KiB each; what is no warning is
// passed over.
std::vector<std::string> ReadWarnings(const std::vector<HttpHeader>& headers);

// Which flow of API Priority and Fairness the call was in; empty if the server does not say.
struct FlowControl {
  std::string flow_schema_uid;
  std::string priority_level_uid;
};
FlowControl ReadFlowControl(const std::vector<HttpHeader>& headers);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_RESPONSE_H_
