#include "integration/monitoring/prometheus_server.h"

#include <stdio.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "curl/curl.h"
#include "integration/monitoring/http_request.h"
#include "libs/status/status_macros.h"

namespace capstan::integration {
namespace {

constexpr char kPrometheus[] = "tools/testenv/bin/prometheus";
constexpr char kPromtool[] = "tools/testenv/bin/promtool";

}  // namespace

std::string CheckMetrics(const std::string& page, const std::string& folder) {
  const std::string file = absl::StrCat(folder, "/page");
  std::ofstream(file, std::ios::binary) << page;
  const std::string command = absl::StrCat(std::filesystem::absolute(kPromtool).string(),
                                           " check metrics <", file, " 2>&1");
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return "promtool does not run";
  std::string found;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, output)) > 0;) found.append(buffer, n);
  const int code = pclose(output);
  if (code != 0 && found.empty()) found = absl::StrCat("promtool ended with ", code);
  return found;
}

std::string ScrapeConfig(const std::string& targets_url, const std::string& rules) {
  return absl::StrCat("global: {scrape_interval: 2s, evaluation_interval: 1s}\n",
                      rules.empty() ? "" : absl::StrCat("rule_files: [", rules, "]\n"),
                      "scrape_configs:\n  - job_name: capstan\n    http_sd_configs:\n"
                      "      - url: ",
                      targets_url,
                      "\n        refresh_interval: 1s\n    relabel_configs:\n"
                      "      - action: labelmap\n        regex: __meta_capstan_(.+)\n");
}

PrometheusServer::PrometheusServer(testenv::LoopbackPort port,
                                   std::unique_ptr<testenv::ServerProcess> process)
    : port_(std::move(port)), process_(std::move(process)) {}

absl::StatusOr<std::unique_ptr<PrometheusServer>> PrometheusServer::Start(
    const std::string& config_file, const std::string& folder) {
  CAPSTAN_ASSIGN_OR_RETURN(testenv::LoopbackPort port, testenv::LoopbackPort::Take());
  CAPSTAN_ASSIGN_OR_RETURN(
      auto process,
      testenv::ServerProcess::Start(
          {std::filesystem::absolute(kPrometheus).string(),
           absl::StrCat("--config.file=", config_file),
           absl::StrCat("--storage.tsdb.path=", folder, "/prometheus"),
           absl::StrCat("--web.listen-address=127.0.0.1:", port.number()), "--log.level=warn"},
          absl::StrCat(folder, "/prometheus.log")));
  return std::unique_ptr<PrometheusServer>(
      new PrometheusServer(std::move(port), std::move(process)));
}

bool PrometheusServer::Ready() const {
  return HttpGet(absl::StrCat("http://127.0.0.1:", port_.number(), "/-/ready")).status == 200;
}

nlohmann::json PrometheusServer::Api(const std::string& path) const {
  const HttpAnswer answer =
      HttpGet(absl::StrCat("http://127.0.0.1:", port_.number(), "/api/v1/", path));
  const nlohmann::json parsed = nlohmann::json::parse(answer.body, nullptr, false);
  if (!parsed.is_object() || parsed.value("status", "") != "success") return nullptr;
  return parsed["data"];
}

absl::optional<double> PrometheusServer::Value(const std::string& expression) const {
  char* const escaped = curl_easy_escape(nullptr, expression.c_str(), 0);
  const nlohmann::json data = Api(absl::StrCat("query?query=", escaped));
  curl_free(escaped);
  double value = 0;
  if (!data.is_object() || data["result"].size() != 1 ||
      !absl::SimpleAtod(data["result"][0]["value"][1].get<std::string>(), &value)) {
    return absl::nullopt;
  }
  return value;
}

}  // namespace capstan::integration
