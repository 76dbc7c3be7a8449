#include "integration/monitoring/otel_collector.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::integration {
namespace {

constexpr char kCollector[] = "tools/testenv/bin/otel_collector";

// Protobuf's JSON: a value is an object with one member, named by its type.
std::string TextOf(const nlohmann::json& value) {
  for (const auto& [type, content] : value.items()) {
    return content.is_string() ? content.get<std::string>() : content.dump();
  }
  return "";
}

ReceivedSpan Read(const nlohmann::json& span, const std::string& service) {
  ReceivedSpan read;
  read.service = service;
  read.trace_id = span.value("traceId", "");
  read.span_id = span.value("spanId", "");
  read.parent_id = span.value("parentSpanId", "");
  read.name = span.value("name", "");
  read.kind = span.value("kind", 0);
  read.begin_ns = span.value("startTimeUnixNano", "");
  read.end_ns = span.value("endTimeUnixNano", "");
  for (const auto& attribute : span.value("attributes", nlohmann::json::array())) {
    read.attributes[attribute.value("key", "")] = TextOf(attribute["value"]);
  }
  return read;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OtelCollector>> OtelCollector::Start(const std::string& folder) {
  CAPSTAN_ASSIGN_OR_RETURN(testenv::LoopbackPort port, testenv::LoopbackPort::Take());
  auto collector =
      std::unique_ptr<OtelCollector>(new OtelCollector(std::move(port), folder + "/otel"));
  std::filesystem::create_directories(collector->folder_);
  const std::string config = absl::StrCat(
      "yaml:{receivers: {otlp: {protocols: {grpc: {endpoint: '", collector->address(),
      "'}}}}, exporters: {file: {path: '", collector->folder_,
      "/spans.json', flush_interval: 100ms}}, service: {telemetry: {metrics: {level: none}}, "
      "pipelines: {traces: {receivers: [otlp], exporters: [file]}}}}");
  CAPSTAN_ASSIGN_OR_RETURN(collector->process_,
                           testenv::ServerProcess::Start(
                               {std::filesystem::absolute(kCollector).string(), "--config", config},
                               collector->folder_ + "/log"));
  return collector;
}

std::string OtelCollector::address() const { return absl::StrCat("127.0.0.1:", port_.number()); }

bool OtelCollector::Ready() const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port_.number()));
  const bool ready = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return ready;
}

std::vector<ReceivedSpan> OtelCollector::Spans() const {
  std::vector<ReceivedSpan> spans;
  std::ifstream in(folder_ + "/spans.json");
  for (std::string line; std::getline(in, line);) {
    // The last line may be half written.
    const nlohmann::json request = nlohmann::json::parse(line, nullptr, false);
    if (!request.is_object()) continue;
    for (const auto& of_process : request.value("resourceSpans", nlohmann::json::array())) {
      std::string service;
      for (const auto& attribute : of_process["resource"]["attributes"]) {
        if (attribute.value("key", "") == "service.name") service = TextOf(attribute["value"]);
      }
      for (const auto& scope : of_process.value("scopeSpans", nlohmann::json::array())) {
        for (const auto& span : scope.value("spans", nlohmann::json::array())) {
          spans.push_back(Read(span, service));
        }
      }
    }
  }
  return spans;
}

}  // namespace capstan::integration
