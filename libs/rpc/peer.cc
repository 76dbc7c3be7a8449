#include "libs/rpc/peer.h"

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/auth_context.h"
#include "libs/rpc/x509.h"

namespace capstan::rpc {
namespace {

// What certificates say, by their PEM text: parsing one costs more than the rest of a small call.
class ParsedPeers {
 public:
  auth::Peer Get(absl::string_view pem) {
    {
      absl::ReaderMutexLock lock(&mutex_);
      const auto it = peers_.find(pem);
      if (it != peers_.end()) return it->second;
    }
    auth::Peer peer = Parse(pem);
    absl::MutexLock lock(&mutex_);
    // Certificates in use come back at once.
    if (peers_.size() >= kMaxPeers) peers_.clear();
    peers_.emplace(pem, peer);
    return peer;
  }

 private:
  static constexpr size_t kMaxPeers = 4096;

  static auth::Peer Parse(absl::string_view pem) {
    auth::Peer peer;
    const absl::StatusOr<std::vector<std::string>> ders = CertificatesFromPem(pem);
    if (!ders.ok() || ders->empty()) return peer;
    const absl::StatusOr<Certificate> certificate = ParseCertificate(ders->front());
    if (!certificate.ok()) return peer;
    peer.spiffe_id = certificate->uri;
    peer.serial = certificate->serial;
    peer.not_after = certificate->not_after;
    return peer;
  }

  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, auth::Peer> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

auth::Peer PeerOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr) return {};
  const std::vector<grpc::string_ref> pems =
      auth->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pems.size() != 1) return {};
  static ParsedPeers& parsed = *new ParsedPeers;
  auth::Peer peer = parsed.Get(absl::string_view(pems[0].data(), pems[0].size()));
  const auto [first, last] = context.client_metadata().equal_range(kPlacementGrant);
  // Of several none counts.
  if (first != last && std::next(first) == last) {
    peer.grant.assign(first->second.data(), first->second.size());
  }
  return peer;
}

}  // namespace capstan::rpc
