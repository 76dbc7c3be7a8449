#include "libs/kube/transport/testing/http_test_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "libs/kube/transport/testing/server_connection.h"
#include "openssl/pem.h"
#include "openssl/ssl.h"

namespace capstan::kube {
namespace {

void Must(bool truth) {
  if (!truth) std::abort();
}

int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* in, unsigned in_size, void* user) {
  static constexpr unsigned char kBoth[] = "\x02h2\x08http/1.1";
  static constexpr unsigned char kOld[] = "\x08http/1.1";
  const bool http2 = *static_cast<const bool*>(user);
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, http2 ? kBoth : kOld,
                            (http2 ? sizeof(kBoth) : sizeof(kOld)) - 1, in,
                            in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

X509* CertificateOf(BIO* bio) { return PEM_read_bio_X509(bio, nullptr, nullptr, nullptr); }

SSL_CTX* MakeContext(const HttpTestServerOptions& options) {
  if (options.chain_pem.empty()) return nullptr;
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (options.tls12) SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  BIO* bio = BIO_new_mem_buf(options.chain_pem.data(), static_cast<int>(options.chain_pem.size()));
  X509* certificate = CertificateOf(bio);
  Must(certificate != nullptr && SSL_CTX_use_certificate(context, certificate) == 1);
  X509_free(certificate);
  BIO_free(bio);
  bio = BIO_new_mem_buf(options.key_pem.data(), static_cast<int>(options.key_pem.size()));
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  Must(key != nullptr && SSL_CTX_use_PrivateKey(context, key) == 1);
  EVP_PKEY_free(key);
  BIO_free(bio);
  if (!options.client_ca_pem.empty()) {
    bio = BIO_new_mem_buf(options.client_ca_pem.data(),
                          static_cast<int>(options.client_ca_pem.size()));
    certificate = CertificateOf(bio);
    Must(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate) == 1);
    X509_free(certificate);
    BIO_free(bio);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    // Resumed sessions need a name for whom they are.
    SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>("t"), 1);
  }
  return context;
}

}  // namespace

class ServerCore : public std::enable_shared_from_this<ServerCore> {
 public:
  ServerCore(HttpTestServerOptions options, Script script)
      : options_(std::move(options)),
        script_(std::move(script)),
        context_(MakeContext(options_)),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    Must(wake_ >= 0);
    if (context_ != nullptr) {
      // The function's only argument that can be had is not const.
      SSL_CTX_set_alpn_select_cb(context_, ChooseProtocol, &options_.http2);
    }
    Listen();
  }
  ~ServerCore() {
    if (context_ != nullptr) SSL_CTX_free(context_);
    ::close(wake_);
  }
  ServerCore(const ServerCore&) = delete;
  ServerCore& operator=(const ServerCore&) = delete;

  void Listen();
  void Run();
  void Post(std::function<void()> task) {
    {
      absl::MutexLock lock(&mutex_);
      tasks_.push_back(std::move(task));
    }
    const uint64_t one = 1;
    Must(::write(wake_, &one, sizeof(one)) == sizeof(one));
  }
  // Runs `task` on the thread and waits for it.
  void Do(const std::function<void()>& task) {
    absl::Notification done;
    Post([&task, &done] {
      task();
      done.Notify();
    });
    done.WaitForNotification();
  }
  void CloseAll() {
    if (listener_ >= 0) ::close(std::exchange(listener_, -1));
    connections_.clear();
  }
  ServerConnection* Find(uint64_t connection) {
    const auto it = connections_.find(connection);
    return it == connections_.end() ? nullptr : it->second.get();
  }

  std::atomic<int> port{0};
  std::atomic<int> accepted{0};
  std::atomic<int> refused{0};
  // Of the thread.
  bool stop = false;
  int refuse = 0;
  bool drop_next = false;
  std::map<uint64_t, std::unique_ptr<ServerConnection>> connections_;

 private:
  class Exchange;

  void Accept();
  bool Request(uint64_t connection, int32_t stream, HttpRequest request);
  void Gone(uint64_t connection, int32_t stream);

  HttpTestServerOptions options_;
  const Script script_;
  SSL_CTX* const context_;
  const int wake_;
  int listener_ = -1;
  uint64_t next_ = 1;
  std::map<std::pair<uint64_t, int32_t>, std::shared_ptr<Exchange>> exchanges_;
  absl::Mutex mutex_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

class ServerCore::Exchange final : public ScriptedExchange {
 public:
  Exchange(std::weak_ptr<ServerCore> core, uint64_t connection, int32_t stream, HttpRequest request)
      : core_(std::move(core)),
        connection_(connection),
        stream_(stream),
        request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }
  void Head(int status, std::vector<HttpHeader> headers) override {
    Post([status, headers = std::move(headers)](ServerConnection& connection, int32_t stream) {
      connection.Head(stream, status, headers);
    });
  }
  void Bytes(std::string bytes) override {
    Post([bytes = std::move(bytes)](ServerConnection& connection, int32_t stream) {
      connection.Bytes(stream, bytes);
    });
  }
  void End() override {
    Post([](ServerConnection& connection, int32_t stream) { connection.End(stream); });
  }
  void Break() override {
    Post([](ServerConnection& connection, int32_t stream) { connection.Break(stream); });
  }
  bool AwaitGone(absl::Duration patience) override {
    return gone.WaitForNotificationWithTimeout(patience);
  }

  absl::Notification gone;

 private:
  void Post(std::function<void(ServerConnection&, int32_t)> what) {
    const std::shared_ptr<ServerCore> core = core_.lock();
    if (core == nullptr) return;
    core->Post(
        [raw = core.get(), connection = connection_, stream = stream_, what = std::move(what)] {
          if (ServerConnection* const found = raw->Find(connection)) what(*found, stream);
        });
  }

  const std::weak_ptr<ServerCore> core_;
  const uint64_t connection_;
  const int32_t stream_;
  const HttpRequest request_;
};

void ServerCore::Listen() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int one = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port.load()));
  socklen_t size = sizeof(address);
  Must(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  constexpr int kBacklog = 256;
  Must(::listen(listener_, kBacklog) == 0);
  Must(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port = ntohs(address.sin_port);
}

void ServerCore::Accept() {
  while (true) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    ++accepted;
    SSL* ssl = nullptr;
    if (context_ != nullptr) {
      ssl = SSL_new(context_);
      SSL_set_fd(ssl, fd);
      SSL_set_accept_state(ssl);
    }
    const uint64_t id = next_++;
    ConnectionHooks hooks;
    hooks.on_request = [this, id](int32_t stream, HttpRequest request) {
      return Request(id, stream, std::move(request));
    };
    hooks.on_gone = [this, id](int32_t stream) { Gone(id, stream); };
    hooks.refuse = [this] {
      if (refuse == 0) return false;
      --refuse;
      ++refused;
      return true;
    };
    connections_[id] =
        std::make_unique<ServerConnection>(fd, ssl, options_.max_streams, std::move(hooks));
  }
}

bool ServerCore::Request(uint64_t connection, int32_t stream, HttpRequest request) {
  if (std::exchange(drop_next, false)) return false;
  auto exchange =
      std::make_shared<Exchange>(weak_from_this(), connection, stream, std::move(request));
  exchanges_[{connection, stream}] = exchange;
  script_(exchange);
  return true;
}

void ServerCore::Gone(uint64_t connection, int32_t stream) {
  const auto it = exchanges_.find({connection, stream});
  if (it == exchanges_.end()) return;
  if (!it->second->gone.HasBeenNotified()) it->second->gone.Notify();
  exchanges_.erase(it);
}

void ServerCore::Run() {
  // Of sockets that OpenSSL writes to.
  sigset_t pipe;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  while (!stop) {
    std::vector<pollfd> polled = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    std::vector<uint64_t> ids;
    for (const auto& [id, connection] : connections_) {
      const int events = POLLIN | (connection->wants_out() ? POLLOUT : 0);
      polled.push_back({connection->fd(), static_cast<short>(events), 0});
      ids.push_back(id);
    }
    ::poll(polled.data(), polled.size(), -1);
    uint64_t count = 0;
    (void)!::read(wake_, &count, sizeof(count));
    std::vector<std::function<void()>> tasks;
    {
      absl::MutexLock lock(&mutex_);
      tasks.swap(tasks_);
    }
    for (const auto& task : tasks) task();
    if (listener_ >= 0 && polled[1].revents != 0) Accept();
    for (size_t i = 0; i < ids.size(); ++i) {
      ServerConnection* const connection = Find(ids[i]);
      if (connection != nullptr && polled[i + 2].revents != 0) connection->Pump();
    }
    for (auto it = connections_.begin(); it != connections_.end();) {
      it = it->second->open() ? std::next(it) : connections_.erase(it);
    }
  }
  CloseAll();
}

HttpTestServer::HttpTestServer(HttpTestServerOptions options, Script script)
    : core_(std::make_shared<ServerCore>(std::move(options), std::move(script))),
      thread_([core = core_.get()] { core->Run(); }) {}

HttpTestServer::~HttpTestServer() {
  core_->Post([this] { core_->stop = true; });
  thread_.join();
}

int HttpTestServer::port() const { return core_->port; }
int HttpTestServer::connections() const { return core_->accepted; }
int HttpTestServer::refused() const { return core_->refused; }

void HttpTestServer::Close() {
  core_->Do([this] { core_->CloseAll(); });
}

void HttpTestServer::Reopen() {
  core_->Do([this] { core_->Listen(); });
}

void HttpTestServer::GoAway() {
  core_->Do([this] {
    for (const auto& [id, connection] : core_->connections_) connection->GoAway();
  });
}

void HttpTestServer::Refuse(int count) {
  core_->Do([this, count] { core_->refuse = count; });
}

void HttpTestServer::DropNext() {
  core_->Do([this] { core_->drop_next = true; });
}

}  // namespace capstan::kube
