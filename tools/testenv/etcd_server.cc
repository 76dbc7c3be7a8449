#include "tools/testenv/etcd_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/status_macros.h"

namespace capstan::testenv {
namespace {

// From the runfiles' root, where Bazel starts tests.
constexpr char kBinary[] = "tools/testenv/bin/etcd";
// Of a program that is started from elsewhere, as benchmarks are.
constexpr char kRunfiles[] = ".runfiles/capstan/";
constexpr absl::Duration kPatience = absl::Seconds(30);
// etcd's own proportion.
constexpr int kHeartbeatsPerElection = 10;

absl::Status WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path);
  file << content;
  file.close();
  if (!file) return absl::InternalError(absl::StrCat("cannot write ", path));
  ::chmod(path.c_str(), 0600);
  return absl::OkStatus();
}

std::string Url(const LoopbackPort& port, const char* scheme) {
  return absl::StrCat(scheme, "://127.0.0.1:", port.number());
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdServer>> EtcdServer::Start(Options options) {
  std::unique_ptr<EtcdServer> server(new EtcdServer(std::move(options)));
  CAPSTAN_RETURN_IF_ERROR(server->Prepare());
  for (int i = 0; i < server->members(); ++i) CAPSTAN_RETURN_IF_ERROR(server->Begin(i));
  for (int i = 0; i < server->members(); ++i) CAPSTAN_RETURN_IF_ERROR(server->WaitReady(i));
  return server;
}

absl::Status EtcdServer::Prepare() {
  binary_ = std::filesystem::absolute(kBinary).string();
  if (::access(binary_.c_str(), X_OK) != 0) {
    std::error_code error;
    const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    binary_ = absl::StrCat(program, kRunfiles, kBinary);
  }
  if (::access(binary_.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat(binary_,
                     " is not there: add //tools/testenv:etcd_server to the test's deps and run it "
                     "by Bazel, which builds etcd (python3 tools/testenv/testenv.py build etcd)"));
  }
  const char* temporary = std::getenv("TEST_TMPDIR");
  std::string folder = absl::StrCat(temporary == nullptr ? "/tmp" : temporary, "/etcd-XXXXXX");
  if (::mkdtemp(folder.data()) == nullptr) return absl::ErrnoToStatus(errno, folder);
  folder_ = folder;

  const rpc::TestAuthority authority;
  CAPSTAN_RETURN_IF_ERROR(WriteFile(ca_file(), rpc::CertificatesToPem({authority.root()})));
  for (const char* name : {"server", "client"}) {
    const rpc::Svid svid = authority.Issue(absl::StrCat("/svc/", name));
    const std::string path = absl::StrCat(folder_, "/", name);
    CAPSTAN_RETURN_IF_ERROR(WriteFile(path + ".pem", rpc::CertificatesToPem(svid.chain)));
    CAPSTAN_RETURN_IF_ERROR(WriteFile(path + "-key.pem", svid.key_pem));
  }
  for (int i = 0; i < options_.members; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(LoopbackPort client, LoopbackPort::Take());
    CAPSTAN_ASSIGN_OR_RETURN(LoopbackPort peer, LoopbackPort::Take());
    members_.push_back({std::move(client), std::move(peer)});
  }
  return absl::OkStatus();
}

EtcdServer::~EtcdServer() {
  members_.clear();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> EtcdServer::endpoints() const {
  std::vector<std::string> endpoints;
  for (const Member& member : members_) {
    endpoints.push_back(absl::StrCat("127.0.0.1:", member.client_port.number()));
  }
  return endpoints;
}

std::string EtcdServer::server_name() const { return rpc::kTlsServerName; }

void EtcdServer::Kill(int member) { members_[member].process.reset(); }
void EtcdServer::Stop(int member) { members_[member].process->Stop(); }
void EtcdServer::Continue(int member) { members_[member].process->Continue(); }

absl::Status EtcdServer::Restart(int member) {
  CAPSTAN_RETURN_IF_ERROR(Begin(member));
  return WaitReady(member);
}

absl::Status EtcdServer::Begin(int member) {
  CAPSTAN_ASSIGN_OR_RETURN(
      members_[member].process,
      ServerProcess::Start(Command(member), absl::StrCat(folder_, "/m", member, ".log")));
  return absl::OkStatus();
}

absl::Status EtcdServer::WaitReady(int member) {
  return members_[member].process->WaitReady(kPatience);
}

std::vector<std::string> EtcdServer::Command(int member) const {
  std::vector<std::string> cluster;
  for (size_t i = 0; i < members_.size(); ++i) {
    cluster.push_back(absl::StrCat("m", i, "=", Url(members_[i].peer_port, "http")));
  }
  const std::string client = Url(members_[member].client_port, "https");
  const std::string peer = Url(members_[member].peer_port, "http");
  const int64_t election = absl::ToInt64Milliseconds(options_.election_timeout);
  std::vector<std::string> command = {
      binary_,
      absl::StrCat("--name=m", member),
      absl::StrCat("--data-dir=", folder_, "/m", member),
      absl::StrCat("--initial-cluster=", absl::StrJoin(cluster, ",")),
      absl::StrCat("--listen-client-urls=", client),
      absl::StrCat("--advertise-client-urls=", client),
      absl::StrCat("--listen-peer-urls=", peer),
      absl::StrCat("--initial-advertise-peer-urls=", peer),
      absl::StrCat("--cert-file=", folder_, "/server.pem"),
      absl::StrCat("--key-file=", folder_, "/server-key.pem"),
      absl::StrCat("--trusted-ca-file=", ca_file()),
      "--client-cert-auth",
      // It would be a client that does not know our name for servers.
      "--enable-grpc-gateway=false",
      absl::StrCat("--election-timeout=", election),
      absl::StrCat("--heartbeat-interval=", election / kHeartbeatsPerElection),
      "--log-level=warn",
  };
  if (!options_.fsync) command.push_back("--unsafe-no-fsync");
  command.insert(command.end(), options_.flags.begin(), options_.flags.end());
  return command;
}

}  // namespace capstan::testenv
