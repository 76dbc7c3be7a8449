#ifndef CAPSTAN_LIBS_METRICS_ENDPOINT_SERVER_H_
#define CAPSTAN_LIBS_METRICS_ENDPOINT_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/metrics/registry.h"

namespace capstan::metrics {

// Serves over plain HTTP, for scrapers and probes on the same machine:
//   /metrics  the registry's text
//   /healthz  200 as long as the process answers
//   /readyz   200, or 503 with the reason
// One thread; at most 64 connections at a time; a request must arrive within 10 s and 8 KiB.
class EndpointServer {
 public:
  struct Options {
    // A loopback address unless the deployment fences the port otherwise.
    std::string host = "127.0.0.1";
    // 0 takes a free one.
    int port = 0;
    // OK when the part can do its work. Called on the server's thread; must not block.
    std::function<absl::Status()> ready = [] { return absl::OkStatus(); };
  };

  // `registry` must outlive the server.
  static absl::StatusOr<std::unique_ptr<EndpointServer>> Create(Options options,
                                                                const Registry* registry);
  // Closes the port and every connection.
  virtual ~EndpointServer() = default;

  virtual int port() const = 0;
};

}  // namespace capstan::metrics

#endif  // CAPSTAN_LIBS_METRICS_ENDPOINT_SERVER_H_
