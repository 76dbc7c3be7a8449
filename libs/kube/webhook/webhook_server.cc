#include "libs/kube/webhook/webhook_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "boost/asio/dispatch.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/strand.hpp"
#include "boost/beast/core.hpp"
#include "boost/beast/http.hpp"
#include "boost/beast/ssl.hpp"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/clock.h"

namespace capstan::kube {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr size_t kMaxHeaderBytes = 64 << 10;

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

// Of a time-out; none is longer than a year, which leaves the clock's range alone.
std::chrono::nanoseconds Nanoseconds(absl::Duration duration) {
  return absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24 * 365)));
}

absl::Status Unusable(absl::string_view what, const beast::error_code& error) {
  return status::Error(absl::StatusCode::kInvalidArgument, "WEBHOOK_CERTIFICATE_UNUSABLE",
                       absl::StrCat(what, " cannot be used: ", error.message()),
                       {{"what", std::string(what)}});
}

absl::StatusOr<std::shared_ptr<asio::ssl::context>> MakeContext(
    const ServerCertificate& certificate, const std::string& client_roots_pem) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  beast::error_code error;
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                           asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression,
                       error);
  if (!error) context->use_certificate_chain(asio::buffer(certificate.chain_pem), error);
  if (error) return Unusable("the certificate's chain", error);
  context->use_private_key(asio::buffer(certificate.key_pem), asio::ssl::context::pem, error);
  if (error || SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return Unusable("the private key", error);
  }
  if (!client_roots_pem.empty()) {
    context->add_certificate_authority(asio::buffer(client_roots_pem), error);
    if (error) return Unusable("the clients' roots", error);
    context->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert,
                             error);
    if (error) return Unusable("the clients' roots", error);
    // Sessions of clients that were verified are only resumed under a name for them.
    static constexpr unsigned char kSessions[] = "capstan-webhook";
    SSL_CTX_set_session_id_context(context->native_handle(), kSessions, sizeof(kSessions) - 1);
  }
  return context;
}

// Of `/path?timeout=10s`, as API servers write it; infinite if it says nothing.
absl::Duration TimeoutOf(absl::string_view query) {
  for (const absl::string_view parameter : absl::StrSplit(query, '&')) {
    const std::pair<absl::string_view, absl::string_view> both =
        absl::StrSplit(parameter, absl::MaxSplits('=', 1));
    absl::Duration timeout;
    if (both.first == "timeout" && absl::ParseDuration(both.second, &timeout) &&
        timeout > absl::ZeroDuration()) {
      return timeout;
    }
  }
  return absl::InfiniteDuration();
}

// What the connections of one server share.
struct Shared {
  WebhookServer::Options options;
  std::map<std::string, AdmissionHandler*> handlers;
  std::atomic<size_t> connections = 0;
  std::atomic<size_t> reviews = 0;
  // Connections that were opened under an earlier number end with their next answer.
  std::atomic<int> certificate_number = 0;
  std::atomic<bool> draining = false;

  // Held while an answer is handed over, which must not happen once connections are being
  // destroyed. Taken before `mutex`.
  absl::Mutex gate;
  bool open ABSL_GUARDED_BY(gate) = true;

  absl::Mutex mutex;
  std::shared_ptr<asio::ssl::context> context ABSL_GUARDED_BY(mutex);
  // With a request that has begun to come or is not answered.
  size_t busy ABSL_GUARDED_BY(mutex) = 0;

  void AddBusy(int by) {
    const absl::MutexLock lock(&mutex);
    busy += static_cast<size_t>(by);
  }
};

// One connection; keeps itself alive by its pending operation. All of it runs on its strand.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<asio::ssl::context> context,
             int certificate_number, std::shared_ptr<Shared> shared)
      : context_(std::move(context)),
        stream_(std::move(socket), *context_),
        answer_timer_(stream_.get_executor()),
        shared_(std::move(shared)),
        certificate_number_(certificate_number),
        opened_(Now()) {
    ++shared_->connections;
  }
  ~Connection() {
    SetBusy(false);
    --shared_->connections;
  }

  auto executor() { return stream_.get_executor(); }

  void Begin() {
    beast::get_lowest_layer(stream_).expires_after(Nanoseconds(shared_->options.request_within));
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [self = shared_from_this()](beast::error_code error) {
                              if (!error) self->AwaitRequest();
                            });
  }

 private:
  BootTime Now() const { return shared_->options.clock->Read().boot; }

  // So that silence between requests may last longer than a request may take to come.
  void AwaitRequest() {
    if (buffer_.size() > 0) return Read();
    // Who has never asked anything is given less time.
    beast::get_lowest_layer(stream_).expires_after(
        Nanoseconds(parser_ ? shared_->options.idle : shared_->options.request_within));
    stream_.async_read_some(buffer_.prepare(16 << 10),
                            [self = shared_from_this()](beast::error_code error, size_t bytes) {
                              if (error) return;
                              self->buffer_.commit(bytes);
                              self->Read();
                            });
  }

  void Read() {
    SetBusy(true);
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(shared_->options.max_body_bytes);
    beast::get_lowest_layer(stream_).expires_after(Nanoseconds(shared_->options.request_within));
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->OnRequest(error); });
  }

  void OnRequest(beast::error_code error) {
    begun_ = Now();
    path_.clear();
    if (error == http::error::body_limit) {
      // What is left of the body is in the way of a next request.
      must_close_ = true;
      return Refuse(http::status::payload_too_large, "the body is too large");
    }
    if (error) return;
    beast::get_lowest_layer(stream_).expires_never();
    const Request& request = parser_->get();
    const std::string target(request.target().data(), request.target().size());
    const size_t query = std::min(target.find('?'), target.size());
    const std::string path = target.substr(0, query);
    if (path == "/healthz" && request.method() == http::verb::get) {
      return Answer(http::status::ok, "text/plain; charset=utf-8", "ok\n");
    }
    const auto handler = shared_->handlers.find(path);
    if (handler == shared_->handlers.end()) {
      return Refuse(http::status::not_found, "there is no webhook of this path");
    }
    path_ = path;
    if (request.method() != http::verb::post) {
      return Refuse(http::status::method_not_allowed, "only POST");
    }
    const auto type = request[http::field::content_type];
    if (!absl::StartsWithIgnoreCase(absl::string_view(type.data(), type.size()),
                                    "application/json")) {
      return Refuse(http::status::unsupported_media_type, "only application/json");
    }
    auto review = ParseAdmissionReview(request.body());
    if (!review.ok()) {
      return Refuse(http::status::bad_request, std::string(review.status().message()));
    }
    if (shared_->reviews >= shared_->options.max_reviews) {
      return Refuse(http::status::service_unavailable, "too many reviews are under way");
    }
    const absl::Duration asked =
        TimeoutOf(absl::string_view(target).substr(std::min(query + 1, target.size())));
    Ask(handler->second, *std::move(review), std::min(shared_->options.answer_within, asked * 0.9));
  }

  void Ask(AdmissionHandler* handler, AdmissionRequest review, absl::Duration within) {
    ++shared_->reviews;
    awaited_ = true;
    const uint64_t number = ++review_number_;
    const std::string uid = review.uid;
    answer_timer_.expires_after(Nanoseconds(within));
    answer_timer_.async_wait([self = shared_from_this(), number](beast::error_code error) {
      if (error || !self->Take(number)) return;
      self->Refuse(http::status::gateway_timeout, "the webhook took too long");
    });
    // Weak: who never answers must not keep a connection for ever, nor who answers later than the
    // server lives.
    handler->Review(std::move(review), [weak = weak_from_this(), shared = shared_, number,
                                        uid](AdmissionResponse response) {
      const absl::MutexLock lock(&shared->gate);
      if (!shared->open) return;
      const std::shared_ptr<Connection> self = weak.lock();
      if (self == nullptr) return;
      asio::post(self->executor(), [self, number, uid, response = std::move(response)] {
        if (!self->Take(number)) return;
        self->answer_timer_.cancel();
        self->allowed_ = response.allowed;
        self->Answer(http::status::ok, "application/json", WriteAdmissionReview(uid, response));
      });
    });
  }

  // True for the first who asks for the review under way.
  bool Take(uint64_t number) {
    if (!awaited_ || number != review_number_) return false;
    awaited_ = false;
    --shared_->reviews;
    return true;
  }

  void Refuse(http::status status, const std::string& why) {
    Answer(status, "text/plain; charset=utf-8", absl::StrCat(why, "\n"));
  }

  void Answer(http::status status, const char* content_type, std::string body) {
    response_ = {};
    response_.version(11);
    response_.result(status);
    response_.set(http::field::content_type, content_type);
    const bool old = Now() - opened_ > shared_->options.max_connection_age ||
                     certificate_number_ != shared_->certificate_number || shared_->draining;
    response_.keep_alive(!old && !must_close_ && parser_->get().keep_alive());
    response_.body() = std::move(body);
    response_.prepare_payload();
    if (shared_->options.observe) {
      shared_->options.observe(
          {path_, static_cast<int>(response_.result_int()), allowed_, Now() - begun_});
    }
    allowed_ = false;
    beast::get_lowest_layer(stream_).expires_after(Nanoseconds(shared_->options.request_within));
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        self->SetBusy(false);
                        if (error) return;
                        if (self->response_.keep_alive()) return self->AwaitRequest();
                        self->stream_.async_shutdown([self](beast::error_code) {});
                      });
  }

  void SetBusy(bool busy) {
    if (busy == busy_) return;
    busy_ = busy;
    shared_->AddBusy(busy ? 1 : -1);
  }

  // The stream refers to it.
  const std::shared_ptr<asio::ssl::context> context_;
  beast::ssl_stream<beast::tcp_stream> stream_;
  asio::steady_timer answer_timer_;
  const std::shared_ptr<Shared> shared_;
  const int certificate_number_;
  const BootTime opened_;
  beast::flat_buffer buffer_;
  boost::optional<http::request_parser<http::string_body>> parser_;
  Response response_;
  std::string path_;
  BootTime begun_;
  uint64_t review_number_ = 0;
  bool awaited_ = false;
  bool allowed_ = false;
  bool must_close_ = false;
  bool busy_ = false;
};

class BeastWebhookServer final : public WebhookServer {
 public:
  explicit BeastWebhookServer(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        context_(shared_->options.threads),
        acceptor_(asio::make_strand(context_)) {}

  ~BeastWebhookServer() override {
    {
      const absl::MutexLock lock(&shared_->gate);
      shared_->open = false;
    }
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Listen() {
    const Options& options = shared_->options;
    beast::error_code error;
    const auto address = asio::ip::make_address(options.host, error);
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(options.port));
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return status::Error(
          absl::StatusCode::kFailedPrecondition, "WEBHOOK_PORT_UNAVAILABLE",
          absl::StrCat("cannot listen on ", options.host, ":", options.port, ": ", error.message()),
          {{"port", absl::StrCat(options.port)}});
    }
    port_ = acceptor_.local_endpoint().port();
    Accept();
    for (int i = 0; i < options.threads; ++i) {
      threads_.emplace_back([this] { context_.run(); });
    }
    return absl::OkStatus();
  }

  absl::Status SetCertificate(const ServerCertificate& certificate) override {
    CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<asio::ssl::context> context,
                             MakeContext(certificate, shared_->options.client_roots_pem));
    const absl::MutexLock lock(&shared_->mutex);
    shared_->context = std::move(context);
    ++shared_->certificate_number;
    return absl::OkStatus();
  }

  bool Drain(absl::Duration grace) override {
    shared_->draining = true;
    asio::post(acceptor_.get_executor(), [this] {
      beast::error_code ignored;
      acceptor_.close(ignored);
    });
    const absl::MutexLock lock(&shared_->mutex);
    return shared_->mutex.AwaitWithTimeout(
        absl::Condition(
            +[](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS { return shared->busy == 0; },
            shared_.get()),
        grace);
  }

  int port() const override { return port_; }

 private:
  void Accept() {
    acceptor_.async_accept(
        asio::make_strand(context_), [this](beast::error_code error, tcp::socket socket) {
          if (error == asio::error::operation_aborted || shared_->draining) return;
          if (!error && shared_->connections < shared_->options.max_connections) {
            beast::error_code ignored;
            socket.set_option(tcp::no_delay(true), ignored);
            std::shared_ptr<asio::ssl::context> context;
            int number = 0;
            {
              const absl::MutexLock lock(&shared_->mutex);
              context = shared_->context;
              number = shared_->certificate_number;
            }
            const auto connection = std::make_shared<Connection>(
                std::move(socket), std::move(context), number, shared_);
            asio::dispatch(connection->executor(), [connection] { connection->Begin(); });
          }
          Accept();
        });
  }

  const std::shared_ptr<Shared> shared_;
  asio::io_context context_;
  tcp::acceptor acceptor_;
  int port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WebhookServer>> WebhookServer::Create(
    Options options, std::map<std::string, AdmissionHandler*> handlers) {
  auto shared = std::make_shared<Shared>();
  shared->options = std::move(options);
  shared->options.threads = std::max(shared->options.threads, 1);
  shared->handlers = std::move(handlers);
  {
    CAPSTAN_ASSIGN_OR_RETURN(
        std::shared_ptr<asio::ssl::context> context,
        MakeContext(shared->options.certificate, shared->options.client_roots_pem));
    // The key need not lie about.
    shared->options.certificate = {};
    const absl::MutexLock lock(&shared->mutex);
    shared->context = std::move(context);
  }
  auto server = std::make_unique<BeastWebhookServer>(std::move(shared));
  CAPSTAN_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace capstan::kube
