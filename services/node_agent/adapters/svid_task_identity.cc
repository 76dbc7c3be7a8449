#include "services/node_agent/adapters/svid_task_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/x509.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/rpc/call.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "services/node_agent/adapters/identity_folder.h"

namespace capstan::node_agent {
namespace {

namespace cr = capstan::credentials::v1;

constexpr char kChainFile[] = "svid.pem";
constexpr char kKeyFile[] = "svid_key.pem";
constexpr char kBundleFile[] = "bundle.pem";

constexpr size_t kMaxPemBytes = size_t{1} << 20;

absl::StatusOr<std::string> WriteIdentity(const IssueIdentity& order, const std::string& key_pem,
                                          const cr::Svid& svid) {
  const std::vector<std::string> chain(svid.certificate_chain().begin(),
                                       svid.certificate_chain().end());
  const std::vector<std::string> roots(svid.bundle().roots().begin(), svid.bundle().roots().end());
  if (chain.empty() || roots.empty()) return absl::InternalError("an SVID without certificates");
  const std::string folder = absl::StrCat(order.folder, "/identity");
  CAPSTAN_RETURN_IF_ERROR(
      ReplaceIdentity(folder, rpc::Sha256Hex(chain[0]).substr(0, 16),
                      {{.name = kChainFile, .bytes = rpc::CertificatesToPem(chain)},
                       {.name = kKeyFile, .bytes = key_pem, .secret = true},
                       {.name = kBundleFile, .bytes = rpc::CertificatesToPem(roots)}},
                      order.unix_uid));
  return folder;
}

// The folder of the set that is current now: its files belong together.
absl::StatusOr<UniqueFd> OpenCurrent(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kCurrentIdentity);
  UniqueFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return fd;
}

absl::StatusOr<std::string> ReadFile(const UniqueFd& folder, const char* name) {
  const UniqueFd fd(openat(folder.get(), name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", name);
  return ReadAll(fd.get(), kMaxPemBytes, name);
}

absl::StatusOr<std::vector<std::string>> ReadCertificates(const UniqueFd& folder,
                                                          const char* name) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string pem, ReadFile(folder, name));
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> chain, rpc::CertificatesFromPem(pem));
  if (chain.empty()) return absl::DataLossError(absl::StrCat(name, " holds no certificate"));
  return chain;
}

absl::StatusOr<SvidLife> ReadLife(const std::string& directory) {
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd folder, OpenCurrent(directory));
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> chain,
                           ReadCertificates(folder, kChainFile));
  CAPSTAN_ASSIGN_OR_RETURN(const rpc::Certificate leaf, rpc::ParseCertificate(chain[0]));
  return SvidLife{leaf.not_before, leaf.not_after};
}

absl::StatusOr<std::string> Pkcs8Of(const rpc::PrivateKey& key) {
  const std::unique_ptr<PKCS8_PRIV_KEY_INFO, decltype(&PKCS8_PRIV_KEY_INFO_free)> pkcs8(
      EVP_PKEY2PKCS8(key.get()), &PKCS8_PRIV_KEY_INFO_free);
  unsigned char* bytes = nullptr;
  const int size = pkcs8 == nullptr ? -1 : i2d_PKCS8_PRIV_KEY_INFO(pkcs8.get(), &bytes);
  if (size <= 0) return absl::InternalError("a Task's key could not be encoded");
  std::string der(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
  OPENSSL_clear_free(bytes, static_cast<size_t>(size));
  return der;
}

absl::StatusOr<TaskSvid> ReadSvid(const std::string& directory) {
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd folder, OpenCurrent(directory));
  TaskSvid svid;
  CAPSTAN_ASSIGN_OR_RETURN(svid.chain, ReadCertificates(folder, kChainFile));
  CAPSTAN_ASSIGN_OR_RETURN(svid.roots, ReadCertificates(folder, kBundleFile));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string pem, ReadFile(folder, kKeyFile));
  CAPSTAN_ASSIGN_OR_RETURN(const rpc::PrivateKey key, rpc::PrivateKey::FromPem(pem));
  CAPSTAN_ASSIGN_OR_RETURN(svid.private_key, Pkcs8Of(key));
  return svid;
}

class SvidTaskIdentity final : public TaskIdentity {
 public:
  SvidTaskIdentity(const std::shared_ptr<grpc::Channel>& channel, Strand* strand, Strand* files,
                   const GrantBook* grants)
      : stub_(cr::IdentityService::NewStub(channel)),
        strand_(strand),
        files_(files),
        grants_(grants) {}

  void Issue(const IssueIdentity& order,
             absl::AnyInvocable<void(absl::StatusOr<std::string>)> done) override {
    absl::StatusOr<rpc::PrivateKey> key = rpc::PrivateKey::Generate();
    if (!key.ok()) return Answer(std::move(done), key.status());
    absl::StatusOr<std::string> csr = rpc::MakeCertificateRequest(*key);
    if (!csr.ok()) return Answer(std::move(done), csr.status());
    cr::IssueTaskSvidRequest request;
    request.set_certificate_request(*std::move(csr));
    request.set_job(order.job);
    request.set_service_account(order.service_account);
    request.set_job_uid(order.id.job_uid);
    request.set_generation(order.id.generation);
    request.set_group(order.id.group);
    request.set_index(order.id.index);
    rpc::CallOptions options{.deadline = absl::Seconds(5)};
    if (grants_ != nullptr) options.metadata = grants_->OfTask(order.id);
    rpc::CallUnary(
        stub_.get(), &cr::IdentityService::StubInterface::async_interface::IssueTaskSvid,
        std::move(request), options, strand_,
        [strand = strand_, files = files_, order, pem = key->ToPem(),
         done = std::move(done)](absl::StatusOr<cr::Svid> svid) mutable {
          if (!svid.ok()) return done(svid.status());
          files->Post([strand, order, pem, svid = *std::move(svid),
                       done = std::move(done)]() mutable {
            strand->Post([done = std::move(done),
                          written = WriteIdentity(order, pem, svid)]() mutable { done(written); });
          });
        });
  }

  void Inspect(const std::string& directory,
               absl::AnyInvocable<void(absl::StatusOr<SvidLife>)> done) override {
    files_->Post([strand = strand_, directory, done = std::move(done)]() mutable {
      strand->Post([done = std::move(done), life = ReadLife(directory)]() mutable { done(life); });
    });
  }

  void Read(const std::string& directory,
            absl::AnyInvocable<void(absl::StatusOr<TaskSvid>)> done) override {
    files_->Post([strand = strand_, directory, done = std::move(done)]() mutable {
      strand->Post([done = std::move(done), svid = ReadSvid(directory)]() mutable {
        done(std::move(svid));
      });
    });
  }

 private:
  void Answer(absl::AnyInvocable<void(absl::StatusOr<std::string>)> done, absl::Status status) {
    strand_->Post([done = std::move(done), status]() mutable { done(status); });
  }

  const std::unique_ptr<cr::IdentityService::Stub> stub_;
  Strand* const strand_;
  Strand* const files_;
  const GrantBook* const grants_;
};

}  // namespace

std::unique_ptr<TaskIdentity> MakeSvidTaskIdentity(const std::shared_ptr<grpc::Channel>& channel,
                                                   Strand* strand, Strand* files,
                                                   const GrantBook* grants) {
  return std::make_unique<SvidTaskIdentity>(channel, strand, files, grants);
}

}  // namespace capstan::node_agent
