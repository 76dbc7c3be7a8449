#ifndef CAPSTAN_LIBS_METRICS_ENDPOINT_SERVER_H_
#define CAPSTAN_LIBS_METRICS_ENDPOINT_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/metrics/registry.h"

namespace capstan::metrics {

// What a page answers.
struct Page {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Serves over plain HTTP, for scrapers and probes on the same machine:
//   /metrics  the registries' text
//   /healthz  200 as long as the process answers
//   /readyz   200, or 503 with the reason
// and further pages that its owner names. One thread; at most 64 connections at a time; a request
// must arrive within 10 s and 8 KiB.
class EndpointServer {
 public:
  struct Options {
    // A loopback address unless the deployment fences the port otherwise.
    std::string host = "127.0.0.1";
    // 0 takes a free one.
    int port = 0;
    // OK when the part can do its work. Called on the server's thread; must not block.
    std::function<absl::Status()> ready = [] { return absl::OkStatus(); };
    // Called on the server's thread before /metrics is rendered, for gauges of what is best looked
    // at only then; may be null, must not block.
    std::function<void()> before_scrape = nullptr;
    // Registries whose text follows the first one's; no two may have metrics of one name.
    std::vector<const Registry*> more_registries = {};
    // By path (`/targets`): called on the server's thread with the textual IP address of who asks;
    // must not block.
    std::map<std::string, std::function<Page(const std::string& client)>> pages = {};
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
