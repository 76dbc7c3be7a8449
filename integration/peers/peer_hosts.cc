#include "integration/peers/peer_hosts.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "grpcpp/client_context.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/placement_claim.h"
#include "libs/auth/placement_verifier.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/digest/sha256.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/session/placement.h"
#include "libs/status/status_macros.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "proto/capstan/dataloader/v1/site.grpc.pb.h"
#include "services/data_loader/server.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;
namespace pb = ::capstan::dataloader::v1;

constexpr char kProgram[] = "integration/peers/peer_node";
constexpr char kJobUid[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";

class NoAudit final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry&) override { return absl::OkStatus(); }
};

// As in production for whoever has a certificate; the test itself calls without one, in process.
class WithTheTest final : public auth::Access {
 public:
  explicit WithTheTest(auth::Access* access) : access_(access) {}
  absl::StatusOr<auth::Caller> Authorize(const auth::Peer& peer, absl::string_view method,
                                         const google::protobuf::Message* request) override {
    if (!peer.spiffe_id.empty()) return access_->Authorize(peer, method, request);
    auth::Caller caller;
    caller.id = auth::SpiffeId::Person("test.capstan.dev", "1000");
    return caller;
  }
  absl::Status CheckPlacement(const auth::Caller& caller,
                              const auth::PlacementClaim& claim) override {
    return access_->CheckPlacement(caller, claim);
  }
  absl::Status Recheck(const auth::Caller& caller) override {
    return caller.IsPerson() ? absl::OkStatus() : access_->Recheck(caller);
  }

 private:
  auth::Access* const access_;
};

std::string Contents(const std::string& path) {
  std::error_code none;
  const uintmax_t size = fs::file_size(path, none);
  if (none) return "";
  std::string bytes(static_cast<size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

}  // namespace

struct PeerHosts::Parts {
  Parts() : logger("peer_hosts", &clock, &sink), registry("data_loader") {}

  std::string IdentityOf(int host) const {
    return absl::StrCat(folder.path(), "/identity-n", host);
  }
  std::string FolderOf(int host) const { return absl::StrCat(folder.path(), "/n", host); }
  std::string OutputOf(int host) const { return FolderOf(host) + ".out"; }

  TemporaryFolder folder;
  SystemClock clock;
  log::TestingSink sink;
  log::Logger logger;
  metrics::Registry registry;
  rpc::TestAuthority authority;
  NoAudit audit;
  auth::PolicyHolder policy;
  std::unique_ptr<auth::PlacementVerifier> placements;
  std::unique_ptr<auth::PolicyAccess> decided;
  std::unique_ptr<WithTheTest> access;
  std::unique_ptr<ThreadStrand> strand;
  std::unique_ptr<store::MemoryStore> store;
  std::unique_ptr<data_loader::Server> server;
  std::string address;
  std::string version;
  std::string digest;
  std::vector<absl::optional<dev::Child>> nodes;
};

PeerHosts::PeerHosts() : parts_(std::make_unique<Parts>()) {}

absl::StatusOr<std::unique_ptr<PeerHosts>> PeerHosts::Start(int hosts, int64_t bytes) {
  auto all = std::unique_ptr<PeerHosts>(new PeerHosts());
  Parts& parts = *all->parts_;
  CAPSTAN_ASSIGN_OR_RETURN(all->network_, Network::Create(hosts));
  parts.nodes.resize(static_cast<size_t>(hosts));
  fs::create_directories(parts.folder.path() + "/site");
  const std::shared_ptr<rpc::Identity> identity =
      parts.authority.MakeIdentity("/svc/data_loader", parts.folder.path() + "/identity");
  parts.decided = std::make_unique<auth::PolicyAccess>(identity->trust_domain(), &parts.policy,
                                                       &parts.clock, &parts.audit);
  parts.placements = std::make_unique<auth::PlacementVerifier>(
      identity->trust_domain(), [identity] { return identity->Get()->svid.bundle; });
  parts.decided->VerifyPlacements(parts.placements.get());
  parts.access = std::make_unique<WithTheTest>(parts.decided.get());
  parts.strand = std::make_unique<ThreadStrand>("data_loader", &parts.clock);
  parts.store = std::make_unique<store::MemoryStore>(parts.strand.get());
  data_loader::ServerConfig config;
  config.address = all->network_->own_address() + ":0";
  config.site_directory = parts.folder.path() + "/site";
  config.allowed_source_roots = {parts.folder.path() + "/bucket"};
  config.page_token_key = "0123456789abcdef";
  data_loader::ServerDeps deps;
  deps.clock = &parts.clock;
  deps.strand = parts.strand.get();
  deps.store = parts.store.get();
  deps.access = parts.access.get();
  deps.logger = &parts.logger;
  deps.metrics = &parts.registry;
  deps.credentials = rpc::MutualTlsServerCredentials(identity, &parts.clock);
  deps.seed = 1;
  CAPSTAN_ASSIGN_OR_RETURN(parts.server, data_loader::Server::Create(config, deps));
  parts.address = absl::StrCat(all->network_->own_address(), ":", parts.server->port());
  CAPSTAN_RETURN_IF_ERROR(all->Load(bytes));
  return all;
}

absl::Status PeerHosts::Load(int64_t bytes) {
  const std::string bucket = parts_->folder.path() + "/bucket";
  fs::create_directories(bucket + "/sub");
  std::string big(static_cast<size_t>(bytes), '\0');
  Random random(3);
  for (size_t i = 0; i < big.size(); i += 997) big[i] = static_cast<char>(random.Next());
  {
    std::ofstream file(bucket + "/big", std::ios::binary);
    file << big;
    std::ofstream small(bucket + "/sub/small");
    small << "small";
  }
  parts_->digest = Sha256::Of(big);
  const auto channel = parts_->server->InProcessChannelForTest();
  {
    grpc::ClientContext context;
    pb::CreateDatasetRequest create;
    create.set_parent("projects/p");
    create.set_dataset_id("d");
    create.mutable_dataset()->set_source_uri("file://" + bucket + "/");
    pb::Dataset dataset;
    CAPSTAN_RETURN_IF_ERROR(rpc::FromGrpcStatus(
        pb::DatasetService::NewStub(channel)->CreateDataset(&context, create, &dataset)));
  }
  const auto loads = pb::DataLoadService::NewStub(channel);
  pb::DataLoad load;
  {
    grpc::ClientContext context;
    pb::EnsureDataLoadRequest ensure;
    ensure.set_dataset("projects/p/datasets/d");
    CAPSTAN_RETURN_IF_ERROR(rpc::FromGrpcStatus(loads->EnsureDataLoad(&context, ensure, &load)));
  }
  grpc::ClientContext context;
  pb::GetDataLoadRequest watch;
  watch.set_name(load.name());
  const auto reader = loads->WatchDataLoad(&context, watch);
  while (reader->Read(&load)) {
  }
  CAPSTAN_RETURN_IF_ERROR(rpc::FromGrpcStatus(reader->Finish()));
  if (load.state() != pb::DataLoad::STATE_SUCCEEDED) return absl::InternalError(load.message());
  parts_->version = load.version();
  grpc::ClientContext listing;
  pb::ListVersionSitesRequest list;
  list.set_version(load.version());
  pb::ListVersionSitesResponse listed;
  CAPSTAN_RETURN_IF_ERROR(rpc::FromGrpcStatus(
      pb::SiteService::NewStub(channel)->ListVersionSites(&listing, list, &listed)));
  content_.set_resource(load.version());
  content_.set_manifest_digest(listed.version().manifest_digest());
  content_.set_holder(absl::StrCat(kJobUid, "/1"));
  return absl::OkStatus();
}

std::string PeerHosts::AddressOf(int host) const {
  return absl::StrCat(network_->address(host), ":7107");
}

std::string PeerHosts::PathOf(int host) { return absl::StrCat("/node/local/n", host); }

const rpc::TestAuthority& PeerHosts::authority() const { return parts_->authority; }

std::vector<std::string> PeerHosts::RefusedBy(int host) const {
  return absl::StrSplit(Contents(parts_->IdentityOf(host) + "/refused"), '\n', absl::SkipEmpty());
}

PeerHosts::~PeerHosts() {
  for (size_t host = 0; host < parts_->nodes.size(); ++host) Forget(static_cast<int>(host));
  parts_->server = nullptr;
  if (parts_->strand != nullptr) parts_->strand->Stop();
  parts_->store = nullptr;
  parts_->strand = nullptr;
}

absl::Status PeerHosts::Fetch(int host, bool peers) {
  const std::string name = absl::StrCat("n", host);
  const std::string identity = parts_->IdentityOf(host);
  if (!fs::exists(identity)) parts_->authority.MakeIdentity(PathOf(host), identity);
  std::ofstream(identity + "/denied") << denied_;
  type::v1::Placement placement;
  placement.set_trust_domain(parts_->authority.trust_domain());
  placement.set_cluster("local");
  placement.set_node(name);
  placement.set_job("projects/p/jobs/j");
  placement.set_job_uid(kJobUid);
  placement.set_generation(1);
  placement.add_versions(session::VersionDigest(parts_->version));
  *placement.mutable_sign_time() = ToProto(parts_->clock.Read().wall);
  std::ofstream(identity + "/grant", std::ios::binary)
      << auth::TestGrant(parts_->authority.Issue("/svc/scheduler"), placement);
  fs::remove(parts_->OutputOf(host));
  dev::SpawnOptions spawn;
  spawn.argv = network_->On(host);
  spawn.argv.insert(spawn.argv.end(), {fs::absolute(kProgram).string(), identity, parts_->address,
                                       peers ? AddressOf(host) : "-", parts_->FolderOf(host),
                                       parts_->version, absl::StrCat(kJobUid, "/1")});
  spawn.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  spawn.output_file = parts_->OutputOf(host);
  CAPSTAN_ASSIGN_OR_RETURN(dev::Child child, dev::Child::Spawn(spawn));
  parts_->nodes[static_cast<size_t>(host)] = std::move(child);
  return absl::OkStatus();
}

void PeerHosts::DenyAt(int host, const std::string& id) {
  Deny(id);
  std::ofstream(parts_->IdentityOf(host) + "/denied") << denied_;
  dev::SignalProcess(parts_->nodes[static_cast<size_t>(host)]->id(), SIGHUP);
}

absl::StatusOr<PeerHosts::Fetched> PeerHosts::Await(int host, absl::Duration time_out) {
  const BootTime end = parts_->clock.Read().boot + time_out;
  std::string line;
  while (line.empty() || line.back() != '\n') {
    if (parts_->clock.Read().boot > end) {
      return absl::DeadlineExceededError(absl::StrCat("host ", host, " has said: ", line));
    }
    const bool ended = Watch(host);
    line = Contents(parts_->OutputOf(host));
    if (ended && line.empty()) return absl::InternalError("the program has ended");
  }
  line.pop_back();
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  Fetched fetched;
  if (words.size() != 5 || words[0] != "done" || !absl::SimpleAtod(words[1], &fetched.seconds) ||
      !absl::SimpleAtoi(words[3], &fetched.from_site) ||
      !absl::SimpleAtoi(words[4], &fetched.from_peers)) {
    return absl::InternalError(absl::StrCat("host ", host, " says: ", line));
  }
  if (Sha256::Of(Contents(words[2] + "/big")) != parts_->digest ||
      Contents(words[2] + "/sub/small") != "small") {
    return absl::DataLossError(absl::StrCat("host ", host, " has other bytes than the source"));
  }
  return fetched;
}

void PeerHosts::Forget(int host) {
  absl::optional<dev::Child>& node = parts_->nodes[static_cast<size_t>(host)];
  if (!node.has_value()) return;
  dev::SignalProcess(node->id(), SIGTERM);
  if (!dev::WaitForEnd(node->id(), absl::Seconds(10))) dev::SignalProcess(node->id(), SIGKILL);
  ::waitpid(node->id().pid, nullptr, 0);
  node.reset();
  fs::remove_all(parts_->FolderOf(host));
}

int64_t PeerHosts::SiteSent() const {
  return static_cast<int64_t>(
      parts_->registry
          .AddCounter("content_sent_bytes_total",
                      "Content read by Nodes from the Site, without manifests")
          .value());
}

int64_t PeerHosts::SentBy(int host) const {
  int64_t bytes = 0;
  std::string text = network_->SentBytes(host);
  return absl::SimpleAtoi(text, &bytes) ? bytes : 0;
}

bool PeerHosts::AwaitSent(int host, int64_t before, int64_t bytes) {
  const BootTime end = parts_->clock.Read().boot + absl::Seconds(60);
  while (SentBy(host) - before < bytes) {
    if (parts_->clock.Read().boot > end || Watch(host)) return false;
  }
  return true;
}

bool PeerHosts::Watch(int host) const {
  return dev::WaitForEnd(parts_->nodes[static_cast<size_t>(host)]->id(), absl::Milliseconds(20));
}

}  // namespace capstan::integration
