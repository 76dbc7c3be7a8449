#include "libs/metrics/endpoint_server.h"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/beast/core.hpp"
#include "boost/beast/http.hpp"
#include "libs/status/error.h"

namespace capstan::metrics {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::chrono::seconds kRequestTimeout(10);
constexpr size_t kMaxHeaderBytes = 8 << 10;
constexpr int kMaxConnections = 64;

using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

// What the connections of one server share; touched by the server's thread only.
struct Shared {
  EndpointServer::Options options;
  const Registry* registry = nullptr;
  int connections = 0;
};

std::string RenderAll(const Shared& shared) {
  if (shared.options.before_scrape) shared.options.before_scrape();
  std::string text = shared.registry->RenderText();
  for (const Registry* registry : shared.options.more_registries) text += registry->RenderText();
  return text;
}

// Every path there is, for who asks for another one.
std::string Paths(const Shared& shared) {
  std::string paths = "try /metrics, /healthz";
  for (const auto& [path, page] : shared.options.pages) absl::StrAppend(&paths, ", ", path);
  return absl::StrCat(paths, " or /readyz\n");
}

Response Answer(const Shared& shared, const Request& request, const std::string& client) {
  const auto page =
      shared.options.pages.find(std::string(request.target().data(), request.target().size()));
  Response response;
  response.version(request.version());
  response.keep_alive(request.keep_alive());
  response.set(http::field::content_type, "text/plain; charset=utf-8");
  response.set(http::field::cache_control, "no-store");
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    response.result(http::status::method_not_allowed);
    response.body() = "only GET\n";
  } else if (request.target() == "/metrics") {
    response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
    response.body() = RenderAll(shared);
  } else if (request.target() == "/healthz") {
    response.body() = "ok\n";
  } else if (request.target() == "/readyz") {
    const absl::Status ready = shared.options.ready();
    response.result(ready.ok() ? http::status::ok : http::status::service_unavailable);
    response.body() = ready.ok() ? "ok\n" : absl::StrCat(std::string(ready.message()), "\n");
  } else if (page != shared.options.pages.end()) {
    Page answer = page->second(client);
    response.result(static_cast<unsigned>(answer.status));
    response.set(http::field::content_type, answer.content_type);
    response.body() = std::move(answer.body);
  } else {
    response.result(http::status::not_found);
    response.body() = Paths(shared);
  }
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

// One connection; keeps itself alive by its pending operation.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Shared* shared) : stream_(std::move(socket)), shared_(shared) {
    ++shared_->connections;
  }
  ~Connection() { --shared_->connections; }

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    stream_.expires_after(kRequestTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       if (!error) self->Write();
                     });
  }

 private:
  void Write() {
    beast::error_code gone;
    const tcp::endpoint client = stream_.socket().remote_endpoint(gone);
    response_ = Answer(*shared_, parser_->get(), gone ? "" : client.address().to_string());
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (error) return;
                        if (self->response_.keep_alive()) return self->Read();
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                      });
  }

  beast::tcp_stream stream_;
  Shared* const shared_;
  beast::flat_buffer buffer_{2 * kMaxHeaderBytes};
  boost::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
};

class BeastEndpointServer final : public EndpointServer {
 public:
  BeastEndpointServer(Options options, const Registry* registry) : acceptor_(context_) {
    shared_.options = std::move(options);
    shared_.registry = registry;
  }

  ~BeastEndpointServer() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen() {
    beast::error_code error;
    const auto address = asio::ip::make_address(shared_.options.host, error);
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(shared_.options.port));
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return status::Error(absl::StatusCode::kFailedPrecondition, "METRICS_PORT_UNAVAILABLE",
                           absl::StrCat("cannot listen on ", shared_.options.host, ":",
                                        shared_.options.port, ": ", error.message()),
                           {{"port", absl::StrCat(shared_.options.port)}});
    }
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { context_.run(); });
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error && shared_.connections < kMaxConnections) {
        std::make_shared<Connection>(std::move(socket), &shared_)->Read();
      }
      Accept();
    });
  }

  // Destroyed after the context, whose pending operations own the connections that refer to it.
  Shared shared_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EndpointServer>> EndpointServer::Create(Options options,
                                                                       const Registry* registry) {
  auto server = std::make_unique<BeastEndpointServer>(std::move(options), registry);
  const absl::Status listening = server->Listen();
  if (!listening.ok()) return listening;
  return server;
}

}  // namespace capstan::metrics
