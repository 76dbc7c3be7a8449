// Any status, headers and body: an error with a code and a reason of ours, of bounded size, that
// every accessor can be asked of.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/client/response.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/transport/transport.h"
#include "libs/status/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  capstan::fuzzing::FuzzInput input(data, size);
  const int http_status = 300 + static_cast<int>(input.Below(250));
  std::vector<capstan::kube::HttpHeader> headers;
  while (input.Flag()) {
    headers.push_back({input.Word({"Retry-After", "Warning", "X-Kubernetes-PF-FlowSchema-UID"}),
                       input.Word({"1", "299 - \"old\"", "299 - \"a\\\"b\" \"d\", 299 - \""})});
  }
  const absl::Status status = capstan::kube::ServerError(http_status, headers, input.Rest());
  Require(!status.ok());
  Require(capstan::kube::HttpStatusOf(status) == http_status);
  Require(!capstan::status::Reason(status).empty());
  Require(status.message().size() < 8192);
  const auto delay = capstan::kube::RetryAfter(status);
  Require(!delay.has_value() || *delay > absl::ZeroDuration());
  for (const auto& conflict : capstan::kube::ApplyConflicts(status)) {
    Require(conflict.manager.size() <= 1024);
  }
  Require(capstan::kube::ReadWarnings(headers).size() <= 32);
  return 0;
}
