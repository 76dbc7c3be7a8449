#include "services/credentials/adapters/openid_server.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/beast/core.hpp"
#include "boost/beast/http.hpp"
#include "boost/beast/ssl.hpp"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"

namespace capstan::credentials {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

constexpr size_t kMaxRequestBytes = 8 << 10;
constexpr int kMaxRequests = 100;
constexpr std::chrono::milliseconds kAcceptPause(100);
constexpr size_t kMaxIssuer = 512;

// What follows the host; empty or with a `/` in front.
std::string PathOf(absl::string_view issuer) {
  const absl::string_view rest = absl::StripPrefix(issuer, "https://");
  const size_t slash = rest.find('/');
  return slash == absl::string_view::npos ? "" : std::string(rest.substr(slash));
}

std::string DiscoveryDocument(const std::string& issuer) {
  return nlohmann::json(
             {{"issuer", issuer},
              {"jwks_uri", issuer + "/keys"},
              {"response_types_supported", {"id_token"}},
              {"subject_types_supported", {"public"}},
              {"id_token_signing_alg_values_supported", {"RS256", "ES256"}},
              {"claims_supported", {"iss", "sub", "aud", "exp", "iat", "nbf", "jti", "capstan"}}})
      .dump();
}

absl::StatusOr<std::shared_ptr<ssl::context>> MakeContext(const rpc::Svid& svid) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  beast::error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1 | ssl::context::no_sslv3 |
                           SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET,
                       error);
  const std::string chain = rpc::CertificatesToPem(svid.chain);
  if (!error) context->use_certificate_chain(asio::buffer(chain), error);
  if (!error) context->use_private_key(asio::buffer(svid.key_pem), ssl::context::pem, error);
  if (error) return absl::InternalError(absl::StrCat("TLS: ", error.message()));
  return context;
}

// What the connections of one server share; touched by the server's thread only.
struct Shared {
  OpenIdServer::Options options;
  std::string path;
  std::string discovery;
  int connections = 0;

  std::chrono::nanoseconds timeout() const { return absl::ToChronoNanoseconds(options.timeout); }
};

void Fill(const Shared& shared, const Request& request, Response* response) {
  response->set(http::field::content_type, "text/plain; charset=utf-8");
  response->set(http::field::cache_control, "no-store");
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    response->result(http::status::method_not_allowed);
    response->set(http::field::allow, "GET, HEAD");
    response->body() = "only GET and HEAD\n";
    return;
  }
  const absl::string_view target(request.target().data(), request.target().size());
  const OpenIdKeys keys = shared.options.keys();
  std::string body;
  if (target == shared.path + "/.well-known/openid-configuration") {
    body = shared.discovery;
  } else if (target == shared.path + "/keys") {
    body = keys.json;
  } else {
    response->result(http::status::not_found);
    response->body() = "try /.well-known/openid-configuration\n";
    return;
  }
  if (keys.json.empty()) {
    response->result(http::status::service_unavailable);
    response->set(http::field::retry_after, "1");
    response->body() = "the keys are being made\n";
    return;
  }
  const std::string etag = absl::StrCat("\"", rpc::Sha256Hex(body).substr(0, 32), "\"");
  response->set(http::field::etag, etag);
  response->set(http::field::cache_control,
                absl::StrCat("public, max-age=", absl::ToInt64Seconds(keys.max_age)));
  response->set(http::field::content_type, "application/json");
  const auto match = request[http::field::if_none_match];
  if (absl::StrContains(absl::string_view(match.data(), match.size()), etag) || match == "*") {
    response->result(http::status::not_modified);
    return;
  }
  response->body() = std::move(body);
}

// One connection; keeps itself alive by its pending operation.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<ssl::context> context, Shared* shared)
      : context_(std::move(context)), stream_(std::move(socket), *context_), shared_(shared) {
    ++shared_->connections;
  }
  ~Connection() { --shared_->connections; }

  void Start() {
    beast::get_lowest_layer(stream_).expires_after(shared_->timeout());
    stream_.async_handshake(ssl::stream_base::server,
                            [self = shared_from_this()](beast::error_code error) {
                              if (!error) self->Read();
                            });
  }

 private:
  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxRequestBytes);
    beast::get_lowest_layer(stream_).expires_after(shared_->timeout());
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       if (!error) self->Write();
                     });
  }

  void Write() {
    const Request& request = parser_->get();
    response_ = Response();
    response_.version(request.version());
    response_.keep_alive(request.keep_alive() && ++requests_ < kMaxRequests);
    Fill(*shared_, request, &response_);
    response_.prepare_payload();
    if (request.method() == http::verb::head) response_.body().clear();
    beast::get_lowest_layer(stream_).expires_after(shared_->timeout());
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (error) return;
                        if (self->response_.keep_alive()) return self->Read();
                        self->Close();
                      });
  }

  void Close() {
    beast::get_lowest_layer(stream_).expires_after(shared_->timeout());
    stream_.async_shutdown([self = shared_from_this()](beast::error_code) {});
  }

  const std::shared_ptr<ssl::context> context_;
  beast::ssl_stream<beast::tcp_stream> stream_;
  Shared* const shared_;
  int requests_ = 0;
  beast::flat_buffer buffer_{2 * kMaxRequestBytes};
  boost::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
};

class BeastOpenIdServer final : public OpenIdServer {
 public:
  explicit BeastOpenIdServer(Options options) : acceptor_(io_), pause_(io_) {
    shared_.path = PathOf(options.issuer);
    shared_.discovery = DiscoveryDocument(options.issuer);
    shared_.options = std::move(options);
  }

  ~BeastOpenIdServer() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen() {
    const std::string& listen = shared_.options.listen;
    const size_t colon = listen.rfind(':');
    const std::string host = listen.substr(0, colon);
    int port = -1;
    beast::error_code error;
    const auto address = asio::ip::make_address(
        std::string(absl::StripSuffix(absl::StripPrefix(host, "["), "]")), error);
    if (colon == std::string::npos || error || !absl::SimpleAtoi(listen.substr(colon + 1), &port) ||
        port < 0 || port > 0xffff) {
      return status::Error(absl::StatusCode::kInvalidArgument, "CANNOT_LISTEN",
                           absl::StrCat("`", listen, "` is not of the form address:port"));
    }
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return status::Error(absl::StatusCode::kUnavailable, "CANNOT_LISTEN",
                           absl::StrCat("cannot listen on ", listen, ": ", error.message()),
                           {{"address", listen}});
    }
    port_ = acceptor_.local_endpoint().port();
    CAPSTAN_RETURN_IF_ERROR(UseIdentity());
    Accept();
    thread_ = std::thread([this] { io_.run(); });
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  // Takes up a certificate that was renewed; after an error the one before stays.
  absl::Status UseIdentity() {
    std::shared_ptr<const rpc::IdentitySnapshot> snapshot = shared_.options.identity->Get();
    if (snapshot == snapshot_) return absl::OkStatus();
    CAPSTAN_ASSIGN_OR_RETURN(context_, MakeContext(snapshot->svid));
    snapshot_ = std::move(snapshot);
    return absl::OkStatus();
  }

  void Accept() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        // Out of descriptors: look again, but not at once.
        pause_.expires_after(kAcceptPause);
        pause_.async_wait([this](beast::error_code) { Accept(); });
        return;
      }
      if (shared_.connections < shared_.options.max_connections) {
        UseIdentity().IgnoreError();
        std::make_shared<Connection>(std::move(socket), context_, &shared_)->Start();
      }
      Accept();
    });
  }

  // Destroyed after the context, whose pending operations own the connections that refer to it.
  Shared shared_;
  std::shared_ptr<const rpc::IdentitySnapshot> snapshot_;
  std::shared_ptr<ssl::context> context_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OpenIdServer>> OpenIdServer::Start(Options options) {
  auto server = std::make_unique<BeastOpenIdServer>(std::move(options));
  CAPSTAN_RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status CheckIssuer(absl::string_view issuer) {
  absl::string_view rest = issuer;
  const bool https = absl::ConsumePrefix(&rest, "https://");
  const bool printable = std::all_of(rest.begin(), rest.end(), [](unsigned char c) {
    return absl::ascii_isgraph(c) && c != '?' && c != '#' && c != '"' && c != '\\' && c != '@';
  });
  if (https && printable && !rest.empty() && rest.front() != '/' && rest.back() != '/' &&
      issuer.size() <= kMaxIssuer) {
    return absl::OkStatus();
  }
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_ISSUER",
                       "expected `https://host[:port][/path]` without query, fragment, user and "
                       "`/` at its end");
}

}  // namespace capstan::credentials
