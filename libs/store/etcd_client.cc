#include "libs/store/etcd_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "libs/rpc/callback_threads.h"
#include "libs/status/error.h"

namespace capstan::store {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;
using grpc::experimental::TlsChannelCredentialsOptions;

constexpr unsigned kWatchSeconds = 1;
// Answers to ranges are cut by count; a page of the largest values stays below.
constexpr int kMaxAnswerBytes = 256 << 20;

std::shared_ptr<grpc::ChannelCredentials> Credentials(const EtcdOptions& options) {
  TlsChannelCredentialsOptions tls;
  tls.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
      options.key_file, options.certificate_file, options.ca_file, kWatchSeconds));
  tls.watch_root_certs();
  tls.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(tls);
}

// A channel to one member, with the settings that go with etcd's own.
std::shared_ptr<grpc::Channel> Dial(const EtcdOptions& options, const std::string& endpoint,
                                    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  args.SetMaxSendMessageSize(-1);
  // A stopped member is found by the lack of an answer. etcd ends connections on which pings come
  // more often than every 5 s, or without a call.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetServiceConfigJSON("{}");
  if (!options.server_name.empty()) args.SetSslTargetNameOverride(options.server_name);
  return grpc::CreateCustomChannel(endpoint, credentials, args);
}

}  // namespace

EtcdClient::EtcdClient(EtcdOptions options, Strand* strand)
    : options_(std::move(options)), strand_(strand), random_(options_.random_seed) {
  rpc::KeepCallbackThreads();
  const std::shared_ptr<grpc::ChannelCredentials> credentials = Credentials(options_);
  for (const std::string& address : options_.endpoints) {
    const std::shared_ptr<grpc::Channel> channel = Dial(options_, address, credentials);
    endpoints_.push_back({etcdserverpb::KV::NewStub(channel), etcdserverpb::Watch::NewStub(channel),
                          etcdserverpb::Lease::NewStub(channel),
                          etcdserverpb::Maintenance::NewStub(channel),
                          etcdserverpb::Auth::NewStub(channel)});
  }
}

rpc::CallOptions EtcdClient::StreamOptions() const {
  rpc::CallOptions options{.deadline = absl::InfiniteDuration()};
  // etcd's clientv3.WithRequireLeader.
  options.metadata.emplace_back("hasleader", "true");
  if (!token_.empty()) options.metadata.emplace_back("token", token_);
  return options;
}

rpc::CallOptions EtcdClient::AttemptOptions(BootTime until) const {
  rpc::CallOptions options = StreamOptions();
  options.deadline =
      std::max(absl::Milliseconds(10), std::min(options_.attempt_timeout, until - Now()));
  return options;
}

void EtcdClient::WithToken(DoneCallback next) {
  if (!replaced_.ok()) return next(replaced_);
  if (options_.user.empty() || !token_.empty()) return next(absl::OkStatus());
  wait_for_token_.push_back(std::move(next));
  if (!authenticating_) Authenticate();
}

void EtcdClient::Authenticate() {
  authenticating_ = true;
  etcdserverpb::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(options_.password);
  rpc::CallUnary(
      endpoints_[current_].auth.get(),
      &etcdserverpb::Auth::StubInterface::async_interface::Authenticate, std::move(request),
      {.deadline = options_.attempt_timeout}, strand_,
      [self = shared_from_this()](absl::StatusOr<etcdserverpb::AuthenticateResponse> answer) {
        self->authenticating_ = false;
        absl::Status status = answer.status();
        if (answer.ok()) self->token_ = answer->token();
        // Whoever waits tries again as with its own call, which was not sent yet.
        if (!status.ok() && ClassifyEtcdError(status) != EtcdOutcome::kAnswered) {
          status = absl::UnavailableError(
              absl::StrCat("failed to connect to all addresses: ", status.message()));
        }
        for (DoneCallback& next : std::exchange(self->wait_for_token_, {})) next(status);
      });
}

void EtcdClient::Suspect(size_t endpoint) {
  if (endpoint != current_ || endpoints_.size() == 1) return;
  current_ = (current_ + 1) % endpoints_.size();
  if (on_suspect_) on_suspect_(endpoint);
}

absl::Status EtcdClient::CheckCluster(const etcdserverpb::ResponseHeader& header) {
  // Some answers have no header.
  if (header.cluster_id() == 0) return absl::OkStatus();
  if (cluster_id_ == 0) cluster_id_ = header.cluster_id();
  if (cluster_id_ == header.cluster_id()) return absl::OkStatus();
  replaced_ = status::Error(
      absl::StatusCode::kFailedPrecondition, kReasonReplaced,
      absl::StrCat("the endpoints lead to cluster ", absl::Hex(header.cluster_id()),
                   ", before it was ", absl::Hex(cluster_id_), "; open the store again"));
  return replaced_;
}

void EtcdClient::Close() {
  closed_ = true;
  for (const std::shared_ptr<Pending>& call : std::set(calls_)) call->ClientClosed();
}

}  // namespace capstan::store
