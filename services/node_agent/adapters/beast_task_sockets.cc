#include "services/node_agent/adapters/beast_task_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/local/stream_protocol.hpp"
#include "boost/asio/post.hpp"
#include "boost/beast/core.hpp"
#include "boost/beast/http.hpp"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "services/node_agent/adapters/checkpoint_text.h"
#include "services/node_agent/adapters/task_cgroup.h"

namespace capstan::node_agent {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Socket = asio::local::stream_protocol::socket;
using Acceptor = asio::local::stream_protocol::acceptor;
using Response = http::response<http::string_body>;
// What a request asks of the strand.
using Ask = std::function<void(const session::TaskId&, const std::string& directory, int64_t step,
                               TaskSockets::Answer)>;

constexpr int kMaxConnections = 16;
constexpr size_t kMaxRequestBytes = 8 * 1024;
constexpr std::chrono::seconds kRequestTime(60);

bool MayUse(int fd, const ServeSocket& order) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  if (order.unix_uid > 0 && static_cast<int64_t>(peer.uid) != order.unix_uid) return false;
  if (order.cgroup.v2().empty() && order.cgroup.v1_freezer().empty()) {
    // Without cgroups the Node says UNISOLATED and admits one principal.
    return order.unix_uid > 0 || peer.uid == geteuid();
  }
  return InCgroup(ReadCgroup(peer.pid), order.cgroup);
}

Response MakeResponse(http::status code, std::string body) {
  Response response(code, 11);
  response.set(http::field::content_type, "application/json");
  response.body() = std::move(body);
  response.prepare_payload();
  return response;
}

Response MakeError(http::status code, const std::string& reason, absl::string_view message) {
  Response response = MakeResponse(code, ErrorText(static_cast<int>(code), reason, message));
  if (code == http::status::service_unavailable) response.set(http::field::retry_after, "1");
  return response;
}

Response ResponseTo(const absl::StatusOr<std::string>& digest, int64_t step) {
  if (digest.ok()) {
    return MakeResponse(http::status::ok, CommittedText(step, *digest));
  }
  const std::string reason = status::Reason(digest.status());
  http::status code = http::status::service_unavailable;
  switch (digest.status().code()) {
    case absl::StatusCode::kInvalidArgument:
      code = http::status::bad_request;
      break;
    case absl::StatusCode::kNotFound:
      code = http::status::not_found;
      break;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
      code = http::status::conflict;
      break;
    default:
      break;
  }
  return MakeError(code, reason.empty() ? "UNAVAILABLE" : reason, digest.status().message());
}

// Answers its connection when destroyed uncalled.
struct AnswerGuard {
  std::function<void(absl::StatusOr<std::string>)> answer;
  ~AnswerGuard() {
    if (answer) answer(absl::UnavailableError("the platform is being restarted"));
  }
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::io_context* io, Socket socket, session::TaskId id, const Ask* ask,
             std::shared_ptr<int> count)
      : io_(io),
        stream_(std::move(socket)),
        id_(std::move(id)),
        ask_(ask),
        count_(std::move(count)) {
    ++*count_;
  }
  ~Connection() { --*count_; }

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMaxRequestBytes);
    parser_->body_limit(kMaxRequestBytes);
    stream_.expires_after(kRequestTime);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->OnRead(error); });
  }

  void Close() {
    beast::error_code ignored;
    stream_.socket().close(ignored);
  }

 private:
  void OnRead(beast::error_code error) {
    if (error == http::error::body_limit || error == http::error::header_limit) {
      return Write(MakeError(http::status::payload_too_large, "REQUEST_TOO_LARGE",
                             "a request has at most 8 KiB"),
                   false);
    }
    if (error) return;
    const auto& request = parser_->get();
    const bool keep = request.keep_alive();
    if (request.target() != "/v1/checkpoints:commit") {
      return Write(MakeError(http::status::not_found, "NO_SUCH_PATH", "see docs/task_contract.md"),
                   keep);
    }
    if (request.method() != http::verb::post) {
      return Write(MakeError(http::status::method_not_allowed, "POST_ONLY", "expected POST"), keep);
    }
    const absl::optional<CheckpointText> asked = ParseCheckpoint(request.body());
    if (!asked.has_value()) {
      return Write(MakeError(http::status::bad_request, "MALFORMED_REQUEST",
                             "expected {\"dir\": \"…\", \"step\": <integer>}"),
                   keep);
    }
    const int64_t step = asked->step;
    // However long the commit takes: the answer decides.
    stream_.expires_never();
    auto guard = std::make_shared<AnswerGuard>();
    guard->answer = [self = shared_from_this(), io = io_, step,
                     keep](absl::StatusOr<std::string> digest) {
      asio::post(*io, [self, step, keep, digest = std::move(digest)] {
        self->Write(ResponseTo(digest, step), keep);
      });
    };
    (*ask_)(id_, asked->directory, step, [guard](absl::StatusOr<std::string> digest) {
      if (guard->answer) std::exchange(guard->answer, nullptr)(std::move(digest));
    });
  }

  void Write(Response response, bool keep) {
    response.keep_alive(keep);
    response_ = std::move(response);
    stream_.expires_after(kRequestTime);
    http::async_write(stream_, response_,
                      [self = shared_from_this(), keep](beast::error_code error, size_t) {
                        if (error || !keep) return self->Close();
                        self->Read();
                      });
  }

  asio::io_context* const io_;
  beast::basic_stream<asio::local::stream_protocol> stream_;
  const session::TaskId id_;
  const Ask* const ask_;
  const std::shared_ptr<int> count_;
  beast::flat_buffer buffer_{2 * kMaxRequestBytes};
  absl::optional<http::request_parser<http::string_body>> parser_;
  Response response_;
};

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(asio::io_context* io, ServeSocket order, const Ask* ask)
      : io_(io), acceptor_(*io), order_(std::move(order)), ask_(ask) {}

  absl::Status Listen() {
    const std::string folder = absl::StrCat(order_.folder, "/socket");
    const UniqueFd directory(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return ErrnoStatus(errno, "open", folder);
    unlinkat(directory.get(), "task.sock", 0);
    // By this name, since the folder's own may be longer than a socket's may be.
    const std::string name = absl::StrCat("/proc/self/fd/", directory.get(), "/task.sock");
    beast::error_code error;
    acceptor_.open(asio::local::stream_protocol(), error);
    if (!error) acceptor_.bind(asio::local::stream_protocol::endpoint(name), error);
    if (error) return absl::InternalError(absl::StrCat(folder, ": ", error.message()));
    const auto uid = static_cast<uid_t>(order_.unix_uid > 0 ? order_.unix_uid : geteuid());
    if (fchownat(directory.get(), "task.sock", uid, static_cast<gid_t>(-1), AT_SYMLINK_NOFOLLOW) !=
            0 ||
        fchmodat(directory.get(), "task.sock", 0600, 0) != 0) {
      return ErrnoStatus(errno, "chown", folder);
    }
    acceptor_.listen(kMaxConnections, error);
    if (error) return absl::InternalError(absl::StrCat(folder, ": ", error.message()));
    Accept();
    return absl::OkStatus();
  }

  void Close() {
    beast::error_code ignored;
    acceptor_.close(ignored);
    unlink(absl::StrCat(order_.folder, "/socket/task.sock").c_str());
    for (const auto& weak : connections_) {
      if (const auto connection = weak.lock()) connection->Close();
    }
  }

 private:
  void Accept() {
    acceptor_.async_accept(
        *io_, [self = shared_from_this()](beast::error_code error, Socket socket) {
          if (error == asio::error::operation_aborted) return;
          if (!error && *self->count_ < kMaxConnections &&
              MayUse(socket.native_handle(), self->order_)) {
            auto connection = std::make_shared<Connection>(
                self->io_, std::move(socket), self->order_.id, self->ask_, self->count_);
            std::erase_if(self->connections_, [](const auto& weak) { return weak.expired(); });
            self->connections_.push_back(connection);
            connection->Read();
          }
          self->Accept();
        });
  }

  asio::io_context* const io_;
  Acceptor acceptor_;
  const ServeSocket order_;
  const Ask* const ask_;
  const std::shared_ptr<int> count_ = std::make_shared<int>(0);
  std::vector<std::weak_ptr<Connection>> connections_;
};

class BeastTaskSockets final : public TaskSockets {
 public:
  explicit BeastTaskSockets(Strand* strand) : strand_(strand), work_(io_.get_executor()) {
    ask_ = [this](const session::TaskId& id, const std::string& directory, int64_t step,
                  Answer answer) {
      strand_->Post([this, alive = std::weak_ptr<char>(alive_), id, directory, step,
                     answer = std::move(answer)]() mutable {
        if (!alive.expired()) on_checkpoint_(id, directory, step, std::move(answer));
      });
    };
    thread_ = std::thread([this] { io_.run(); });
  }

  ~BeastTaskSockets() override {
    asio::post(io_, [this] {
      for (auto& [id, listener] : listeners_) listener->Close();
      listeners_.clear();
    });
    work_.reset();
    io_.stop();
    thread_.join();
    // What io_.stop cut off; sockets are closed with their owners.
    for (auto& [id, listener] : listeners_) listener->Close();
  }

  void SetCheckpointCallback(CheckpointCallback on_checkpoint) override {
    on_checkpoint_ = std::move(on_checkpoint);
  }

  void Serve(const ServeSocket& order) override {
    asio::post(io_, [this, order] {
      if (listeners_.count(order.id) != 0) return;
      auto listener = std::make_shared<Listener>(&io_, order, &ask_);
      // A Task whose folder is broken has no socket; it finds out when it connects.
      if (listener->Listen().ok()) listeners_[order.id] = std::move(listener);
    });
  }

  void Close(const session::TaskId& id) override {
    asio::post(io_, [this, id] {
      const auto it = listeners_.find(id);
      if (it == listeners_.end()) return;
      it->second->Close();
      listeners_.erase(it);
    });
  }

 private:
  Strand* const strand_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Ask ask_;
  CheckpointCallback on_checkpoint_;
  // On the thread only, until it is joined.
  std::map<session::TaskId, std::shared_ptr<Listener>> listeners_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TaskSockets> MakeBeastTaskSockets(Strand* strand) {
  return std::make_unique<BeastTaskSockets>(strand);
}

}  // namespace capstan::node_agent
