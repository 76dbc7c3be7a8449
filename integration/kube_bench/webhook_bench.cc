#include "integration/kube_bench/webhook_bench.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/beast/core.hpp"
#include "boost/beast/http.hpp"
#include "boost/beast/ssl.hpp"
#include "libs/kube/webhook/admission_review.h"
#include "libs/kube/webhook/webhook_server.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/time/system_clock.h"

namespace capstan::kube::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr char kPath[] = "/validate";

class Allow final : public AdmissionHandler {
 public:
  void Review(AdmissionRequest request, Done done) override {
    AdmissionResponse response;
    response.allowed = !request.object.empty();
    done(std::move(response));
  }
};

// A Pod as kubectl sends one, some 2 KiB with what surrounds it.
std::string ReviewBody() {
  std::string containers;
  for (int i = 0; i < 3; ++i) {
    absl::StrAppend(
        &containers, i == 0 ? "" : ",", R"({"name":"c)", i,
        R"(","image":"registry.example.org/team/trainer:1.2.3","command":["python3","-m","train"],)",
        R"("env":[{"name":"RANK","value":"0"},{"name":"WORLD_SIZE","value":"512"}],)",
        R"("resources":{"limits":{"cpu":"8","memory":"64Gi","nvidia.com/gpu":"8"}},)",
        R"("volumeMounts":[{"name":"data","mountPath":"/data"}]})");
  }
  return absl::StrCat(
      R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{)",
      R"("uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":{"group":"","version":"v1",)",
      R"("kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},)",
      R"("name":"train-0","namespace":"team","operation":"CREATE","userInfo":{"username":"ann",)",
      R"("groups":["system:authenticated"]},"object":{"apiVersion":"v1","kind":"Pod","metadata":)",
      R"({"name":"train-0","namespace":"team","labels":{"app":"train","job":"train"}},"spec":)",
      R"({"containers":[)", containers, R"(],"volumes":[{"name":"data","emptyDir":{}}]}},)",
      R"("oldObject":null,"options":{"apiVersion":"meta.k8s.io/v1","kind":"CreateOptions"},)",
      R"("dryRun":false}})");
}

// Of a child: serves until it is killed, and says its port.
[[noreturn]] void Serve(const ServerCertificate& certificate, int told) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const SystemClock clock;
  Allow allow;
  WebhookServer::Options options;
  options.certificate = certificate;
  options.clock = &clock;
  auto server = WebhookServer::Create(options, {{kPath, &allow}});
  const int port = server.ok() ? (*server)->port() : 0;
  if (write(told, &port, sizeof port) != sizeof port || port == 0) _exit(1);
  for (;;) pause();
}

// Sends what is due on connections that are free.
class Generator {
 public:
  Generator(int port, const std::string& roots_pem, const WebhookLoad& load, const Clock* clock)
      : load_(load),
        clock_(clock),
        context_(asio::ssl::context::tls_client),
        timer_(io_),
        interval_(absl::Seconds(1) / load.per_second),
        left_(static_cast<int>(absl::ToDoubleSeconds(load.time) * load.per_second)) {
    context_.add_certificate_authority(asio::buffer(roots_pem));
    context_.set_verify_mode(asio::ssl::verify_peer);
    request_.method(http::verb::post);
    request_.target(absl::StrCat(kPath, "?timeout=10s"));
    request_.version(11);
    request_.set(http::field::host, "localhost");
    request_.set(http::field::content_type, "application/json");
    request_.body() = ReviewBody();
    request_.prepare_payload();
    for (int i = 0; i < load.connections; ++i) {
      connections_.push_back(std::make_unique<Connection>(io_, context_));
      Connection& connection = *connections_.back();
      auto& socket = beast::get_lowest_layer(connection.stream);
      socket.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)});
      socket.set_option(asio::ip::tcp::no_delay(true));
      connection.stream.handshake(asio::ssl::stream_base::client);
      free_.push_back(&connection);
    }
  }

  // In milliseconds; empty if an answer was wrong.
  std::vector<double> Run() {
    next_ = Now();
    Tick();
    io_.run();
    if (wrong_) took_.clear();
    return std::move(took_);
  }

 private:
  struct Connection {
    Connection(asio::io_context& io, asio::ssl::context& context) : stream(io, context) {}

    beast::ssl_stream<asio::ip::tcp::socket> stream;
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    BootTime due;
  };

  BootTime Now() const { return clock_->Read().boot; }

  void Tick() {
    const BootTime now = Now();
    for (; left_ > 0 && next_ <= now; next_ = next_ + interval_, --left_) due_.push_back(next_);
    Send();
    if (left_ == 0) return;
    timer_.expires_after(absl::ToChronoNanoseconds(next_ - now));
    timer_.async_wait([this](beast::error_code) { Tick(); });
  }
  void Send() {
    while (!due_.empty() && !free_.empty()) {
      Connection* const connection = free_.front();
      free_.pop_front();
      connection->due = due_.front();
      due_.pop_front();
      http::async_write(connection->stream, request_, [this, connection](auto error, size_t) {
        if (error) return Fail();
        connection->response = {};
        http::async_read(connection->stream, connection->buffer, connection->response,
                         [this, connection](auto read_error, size_t) {
                           if (read_error) return Fail();
                           OnAnswer(connection);
                         });
      });
    }
  }
  void OnAnswer(Connection* connection) {
    took_.push_back(absl::ToDoubleMilliseconds(Now() - connection->due));
    if (!absl::StrContains(connection->response.body(), R"("allowed":true)")) return Fail();
    free_.push_back(connection);
    Send();
  }
  void Fail() {
    wrong_ = true;
    io_.stop();
  }

  const WebhookLoad load_;
  const Clock* const clock_;
  asio::io_context io_{1};
  asio::ssl::context context_;
  asio::steady_timer timer_;
  const absl::Duration interval_;
  int left_;
  http::request<http::string_body> request_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::deque<Connection*> free_;
  std::deque<BootTime> due_;
  BootTime next_;
  std::vector<double> took_;
  bool wrong_ = false;
};

double CpuSeconds(const rusage& usage) {
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace

absl::StatusOr<std::vector<Figure>> BenchWebhook(const WebhookLoad& load) {
  const SystemClock clock;
  const rpc::TestAuthority authority("bench.example.org");
  const rpc::Svid svid = authority.Issue("/svc/webhook");
  const ServerCertificate certificate = {rpc::CertificatesToPem(svid.chain), svid.key_pem};
  std::vector<double> p50;
  std::vector<double> p99;
  std::vector<double> cpu;
  for (int run = 0; run < load.runs; ++run) {
    int told[2];
    if (pipe(told) != 0) return absl::ErrnoToStatus(errno, "pipe");
    const pid_t server = fork();
    if (server == 0) Serve(certificate, told[1]);
    close(told[1]);
    int port = 0;
    const bool heard = read(told[0], &port, sizeof port) == sizeof port && port != 0;
    close(told[0]);
    std::vector<double> took;
    if (heard)
      took = Generator(port, rpc::CertificatesToPem({authority.root()}), load, &clock).Run();
    kill(server, SIGKILL);
    rusage usage{};
    wait4(server, nullptr, 0, &usage);
    if (took.empty()) return absl::InternalError("the webhook server did not answer");
    p50.push_back(Percentile(took, 0.5));
    p99.push_back(Percentile(took, 0.99));
    cpu.push_back(CpuSeconds(usage) * 1e6 / static_cast<double>(took.size()));
  }
  const std::string conditions = absl::StrCat(
      load.per_second, " reviews/s of ", ReviewBody().size(), " bytes for ",
      absl::FormatDuration(load.time), " over ", load.connections,
      " kept TLS 1.3 connections; from when a review was due to its whole answer; server and "
      "generator are a process each on this machine");
  const std::string suffix = absl::StrCat(".rate", load.per_second);
  return std::vector<Figure>{
      {"kube.webhook_p99_ms" + suffix, p99, "ms", true, 2, conditions},
      {"kube.webhook_p50_ms" + suffix, p50, "ms", true, 0, conditions},
      {"kube.webhook_cpu_us_per_review" + suffix, cpu, "us", true, 0,
       "of the server's process, start and handshakes included; " + conditions}};
}

}  // namespace capstan::kube::bench
