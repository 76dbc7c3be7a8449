#ifndef CAPSTAN_INTEGRATION_MONITORING_PROMETHEUS_SERVER_H_
#define CAPSTAN_INTEGRATION_MONITORING_PROMETHEUS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "nlohmann/json.hpp"
#include "tools/testenv/loopback_port.h"
#include "tools/testenv/server_process.h"

namespace capstan::integration {

// Runs promtool's `check metrics` on a page of metrics: empty if it finds nothing, else what.
std::string CheckMetrics(const std::string& page, const std::string& folder);

// A configuration that scrapes what telemetry lists at `targets_url`, as infra/monitoring has it
// but for times that a test can wait for. `rules`: a file beside it, or none.
std::string ScrapeConfig(const std::string& targets_url, const std::string& rules = "");

// A real Prometheus. For one thread, which must outlive it.
class PrometheusServer {
 public:
  // `config_file` as it is; what it keeps and logs goes into `folder`. Does not wait for it.
  static absl::StatusOr<std::unique_ptr<PrometheusServer>> Start(const std::string& config_file,
                                                                 const std::string& folder);

  bool Ready() const;
  // `data` of the answer to `/api/v1/<path>`; null if there is none or it is an error.
  nlohmann::json Api(const std::string& path) const;
  // Value of an instant query with one sample at most.
  absl::optional<double> Value(const std::string& expression) const;

 private:
  PrometheusServer(testenv::LoopbackPort port, std::unique_ptr<testenv::ServerProcess> process);

  const testenv::LoopbackPort port_;
  const std::unique_ptr<testenv::ServerProcess> process_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_MONITORING_PROMETHEUS_SERVER_H_
