#include "libs/metrics/endpoint_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"

namespace capstan::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

std::string Exchange(int port, const std::string& request) {
  const int fd = Connect(port);
  if (fd < 0) return "";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) answer.append(buffer, n);
  close(fd);
  return answer;
}

std::string Get(int port, const std::string& path) {
  return Exchange(port,
                  absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
}

TEST(EndpointServerTest, ServesMetricsHealthAndReadiness) {
  Registry registry("telemetry");
  registry.AddCounter("records_total", "Records appended.").Increment();
  std::atomic<bool> ready = false;
  EndpointServer::Options options;
  options.ready = [&ready] {
    return ready ? absl::OkStatus() : absl::UnavailableError("store is not open");
  };
  auto server = EndpointServer::Create(options, &registry);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_THAT(Get(port, "/metrics"), HasSubstr("capstan_telemetry_records_total 1"));
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get(port, "/readyz"), HasSubstr("store is not open"));
  ready = true;
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(port, "/other"), StartsWith("HTTP/1.1 404"));
}

TEST(EndpointServerTest, ServesMoreRegistriesAndPages) {
  Registry registry("telemetry");
  registry.AddCounter("records_total", "Records appended.").Increment();
  Registry process("process");
  Gauge looked = process.AddGauge("looked", "Times that it was scraped.");
  EndpointServer::Options options;
  options.before_scrape = [&looked] { looked.Add(1); };
  options.more_registries = {&process};
  options.pages["/targets"] = [](const std::string& client) {
    return Page{
        .status = 403, .content_type = "application/json", .body = absl::StrCat("to ", client)};
  };
  auto server = EndpointServer::Create(options, &registry);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_THAT(Get(port, "/metrics"), HasSubstr("capstan_telemetry_records_total 1"));
  EXPECT_THAT(Get(port, "/metrics"), HasSubstr("\ncapstan_process_looked 2\n"));
  const std::string page = Get(port, "/targets");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(page, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(page, HasSubstr("to 127.0.0.1"));
  EXPECT_THAT(Get(port, "/other"), HasSubstr("try /metrics, /healthz, /targets or /readyz"));
}

TEST(EndpointServerTest, RefusesOtherMethodsAndSurvivesNonsense) {
  Registry registry("a");
  auto server = EndpointServer::Create({}, &registry);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_THAT(Exchange(port, "POST /metrics HTTP/1.1\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
  Exchange(port, "\x16\x03\x01 this is TLS\r\n\r\n");
  Exchange(port, absl::StrCat("GET /", std::string(20000, 'a'), " HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
}

// As many as there may be, half of them silent, half of which a byte comes now and then: no further
// one is taken meanwhile, and all are ended in time, so that others get in again.
TEST(EndpointServerTest, RefusesTooManyAndEndsTheSlow) {
  constexpr int kMost = 64;
  constexpr absl::Duration kTimeout = absl::Seconds(10);
  constexpr absl::Duration kBetweenBytes = absl::Milliseconds(500);
  Registry registry("a");
  auto server = EndpointServer::Create({}, &registry);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  const SystemClock clock;
  const BootTime begun = clock.Read().boot;
  std::vector<pollfd> slow;
  for (int i = 0; i < kMost; ++i) {
    slow.push_back({.fd = Connect(port), .events = POLLIN, .revents = 0});
    ASSERT_GE(slow.back().fd, 0) << i;
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Get(port, "/healthz"), "") << i;
  int open = kMost;
  const std::string line = absl::StrCat("GET /healthz?", std::string(100, 'a'));
  for (size_t sent = 0; open > 0 && clock.Read().boot - begun < 2 * kTimeout; ++sent) {
    for (size_t i = 0; i < slow.size(); i += 2) {
      if (slow[i].fd >= 0) (void)send(slow[i].fd, &line[sent % line.size()], 1, MSG_NOSIGNAL);
    }
    poll(slow.data(), slow.size(), static_cast<int>(absl::ToInt64Milliseconds(kBetweenBytes)));
    for (pollfd& connection : slow) {
      if (connection.fd < 0 || connection.revents == 0) continue;
      char byte = 0;
      EXPECT_LE(read(connection.fd, &byte, 1), 0);
      EXPECT_GE(clock.Read().boot - begun, 0.9 * kTimeout);
      close(connection.fd);
      connection.fd = -1;
      --open;
    }
  }
  EXPECT_EQ(open, 0);
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST(EndpointServerTest, APortInUseIsAnError) {
  Registry registry("a");
  auto first = EndpointServer::Create({}, &registry);
  ASSERT_TRUE(first.ok());
  EndpointServer::Options options;
  options.port = (*first)->port();
  const auto second = EndpointServer::Create(options, &registry);
  EXPECT_EQ(status::Reason(second.status()), "METRICS_PORT_UNAVAILABLE");
}

TEST(EndpointServerTest, StopsWithConnectionsOpen) {
  Registry registry("a");
  auto server = EndpointServer::Create({}, &registry);
  ASSERT_TRUE(server.ok());
  const int fd = Connect((*server)->port());
  ASSERT_GE(fd, 0);
  server->reset();
  char byte;
  EXPECT_LE(read(fd, &byte, 1), 0);
  close(fd);
}

}  // namespace
}  // namespace capstan::metrics
