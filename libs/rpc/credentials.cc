#include "libs/rpc/credentials.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "grpcpp/support/channel_arguments.h"
#include "libs/auth/spiffe_id.h"
#include "libs/rpc/callback_threads.h"
#include "libs/rpc/channel_settings.h"
#include "libs/rpc/observation.h"
#include "libs/rpc/x509.h"
#include "libs/status/status_macros.h"

namespace capstan::rpc {
namespace {

using ::grpc::experimental::CertificateProviderInterface;
using ::grpc::experimental::ExternalCertificateVerifier;
using ::grpc::experimental::FileWatcherCertificateProvider;
using ::grpc::experimental::StaticDataCertificateProvider;
using ::grpc::experimental::TlsChannelCredentialsOptions;
using ::grpc::experimental::TlsCustomVerificationCheckRequest;
using ::grpc::experimental::TlsServerCredentialsOptions;

constexpr unsigned kWatchSeconds = 1;

// A root of which nobody has the key. A client that is given none reads all of the system's, which
// have no say here and take it 30 ms.
constexpr char kNobodysRoot[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBeTCCAR+gAwIBAgIUVeXTTxsjDd+2uwtISiVsuLbavxswCgYIKoZIzj0EAwIw\n"
    "ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTEyMzA4MDUyM1oYDzIxMjYxMDMwMDgw\n"
    "NTIzWjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n"
    "AARxIsgP0TqH88PHL6XPcp73360eR6/aJ7vCFO1yDN95/n9nkrEo89tGkaTGYAlc\n"
    "hyme0/Bz1g1OTKHEcWQ2rq8Po1MwUTAdBgNVHQ4EFgQUWgHIxPuTJNtf+Sdt9Ifw\n"
    "dlYqvIQwHwYDVR0jBBgwFoAUWgHIxPuTJNtf+Sdt9IfwdlYqvIQwDwYDVR0TAQH/\n"
    "BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEAu7vnBsgvga94Y+madLs7BX1T+lhN\n"
    "3dqifInHLOoqXCMCIEXw408ba0W4kjjU2lqQXsC9+ruNG3c1g3tiWFrHJVe4\n"
    "-----END CERTIFICATE-----\n";

// What the other side sent: DER.
struct Shown {
  std::string leaf;
  std::vector<std::string> others;
};

absl::StatusOr<Shown> Read(const TlsCustomVerificationCheckRequest& request) {
  const grpc::string_ref leaf_pem = request.peer_cert();
  if (leaf_pem.empty()) return absl::UnauthenticatedError("no certificate was shown");
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> leaf, CertificatesFromPem(absl::string_view(
                                                              leaf_pem.data(), leaf_pem.size())));
  if (leaf.size() != 1) return absl::UnauthenticatedError("no certificate was shown");
  const grpc::string_ref chain_pem = request.peer_cert_full_chain();
  CAPSTAN_ASSIGN_OR_RETURN(
      std::vector<std::string> chain,
      CertificatesFromPem(absl::string_view(chain_pem.data(), chain_pem.size())));
  Shown shown{std::move(leaf[0]), {}};
  // A client sees the leaf in the chain as well, a server does not.
  for (std::string& der : chain) {
    if (der != shown.leaf) shown.others.push_back(std::move(der));
  }
  return shown;
}

// Checks the leaf's SPIFFE id: a well-formed id that a certificate may carry.
absl::StatusOr<auth::SpiffeId> IdOf(absl::string_view uri) {
  CAPSTAN_ASSIGN_OR_RETURN(auth::SpiffeId id, auth::SpiffeId::Parse(uri));
  if (id.kind == auth::SpiffeId::Kind::kServiceAccount) {
    return absl::UnauthenticatedError("a service account has no certificate");
  }
  return id;
}

// Base of our verifiers: reads what was shown, reports what is refused.
class Verifier : public ExternalCertificateVerifier {
 public:
  Verifier(const Clock* clock, RefusalObserver observer)
      : clock_(clock), observer_(std::move(observer)) {}

  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) final {
    std::string uri;
    const absl::Status status = Check(*request, &uri);
    if (!status.ok()) {
      if (observer_) observer_(status, uri);
      *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(status.message()));
    }
    return true;
  }

  void Cancel(TlsCustomVerificationCheckRequest*) final {}

 private:
  virtual absl::Status CheckShown(const Shown& shown, const Certificate& leaf, absl::Time now) = 0;

  absl::Status Check(const TlsCustomVerificationCheckRequest& request, std::string* uri) {
    CAPSTAN_ASSIGN_OR_RETURN(const Shown shown, Read(request));
    CAPSTAN_ASSIGN_OR_RETURN(const Certificate leaf, ParseCertificate(shown.leaf));
    *uri = leaf.uri;
    if (leaf.is_ca) return absl::UnauthenticatedError("an authority's certificate was shown");
    return CheckShown(shown, leaf, clock_->Read().wall);
  }

  const Clock* const clock_;
  const RefusalObserver observer_;
};

// Accepts the holders of SVIDs of the own trust domain; with `expected_peer` only that one.
class SvidVerifier final : public Verifier {
 public:
  SvidVerifier(std::shared_ptr<const Identity> identity, const Clock* clock,
               absl::optional<std::string> expected_peer, RefusalObserver observer)
      : Verifier(clock, std::move(observer)),
        identity_(std::move(identity)),
        expected_peer_(std::move(expected_peer)) {}

 private:
  absl::Status CheckShown(const Shown& shown, const Certificate& leaf, absl::Time now) override {
    CAPSTAN_RETURN_IF_ERROR(
        VerifyChain(shown.leaf, shown.others, identity_->Get()->svid.bundle, now));
    CAPSTAN_ASSIGN_OR_RETURN(const auth::SpiffeId id, IdOf(leaf.uri));
    if (id.trust_domain != identity_->trust_domain()) {
      return absl::UnauthenticatedError("the certificate is of another trust domain");
    }
    if (expected_peer_.has_value() && leaf.uri != *expected_peer_) {
      return absl::UnauthenticatedError(
          absl::StrCat("expected ", *expected_peer_, ", found ", leaf.uri));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const Identity> identity_;
  const absl::optional<std::string> expected_peer_;
};

// Accepts the credentials service of the trust domain whose bundle has the pinned hash.
class PinnedBundleVerifier final : public Verifier {
 public:
  PinnedBundleVerifier(std::string bundle_sha256, const Clock* clock)
      : Verifier(clock, nullptr), bundle_sha256_(std::move(bundle_sha256)) {}

 private:
  absl::Status CheckShown(const Shown& shown, const Certificate& leaf, absl::Time now) override {
    std::vector<std::string> intermediates;
    std::vector<std::string> roots;
    for (const std::string& der : shown.others) {
      CAPSTAN_ASSIGN_OR_RETURN(const Certificate certificate, ParseCertificate(der));
      (certificate.self_issued ? roots : intermediates).push_back(der);
    }
    if (BundleSha256(roots) != bundle_sha256_) {
      return absl::UnauthenticatedError("the server's trust bundle is not the pinned one");
    }
    CAPSTAN_RETURN_IF_ERROR(VerifyChain(shown.leaf, intermediates, roots, now));
    CAPSTAN_ASSIGN_OR_RETURN(const auth::SpiffeId id, IdOf(leaf.uri));
    if (id.kind != auth::SpiffeId::Kind::kService || id.service != "credentials") {
      return absl::UnauthenticatedError(
          absl::StrCat("expected the credentials service, found ", leaf.uri));
    }
    return absl::OkStatus();
  }

  const std::string bundle_sha256_;
};

// One watcher, with its thread, for all credentials of an identity.
std::shared_ptr<CertificateProviderInterface> ProviderOf(const Identity& identity) {
  return std::static_pointer_cast<CertificateProviderInterface>(identity.GetOrMakeAttachment([&] {
    const std::shared_ptr<CertificateProviderInterface> provider =
        std::make_shared<FileWatcherCertificateProvider>(identity.svid_path(), identity.svid_path(),
                                                         identity.svid_path(), kWatchSeconds);
    return std::static_pointer_cast<void>(provider);
  }));
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MutualTlsServerCredentials(
    std::shared_ptr<const Identity> identity, const Clock* clock, RefusalObserver observer) {
  TlsServerCredentialsOptions options(ProviderOf(*identity));
  options.watch_identity_key_cert_pairs();
  // Asked for, and then required and verified by SvidVerifier.
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(ExternalCertificateVerifier::Create<SvidVerifier>(
      std::move(identity), clock, absl::nullopt, std::move(observer)));
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> JoinServerCredentials(
    std::shared_ptr<const Identity> identity) {
  TlsServerCredentialsOptions options(ProviderOf(*identity));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> MutualTlsChannelCredentials(
    std::shared_ptr<const Identity> identity, const Clock* clock, absl::string_view expected_peer,
    RefusalObserver observer) {
  std::string expected = absl::StartsWith(expected_peer, "/")
                             ? absl::StrCat("spiffe://", identity->trust_domain(), expected_peer)
                             : std::string(expected_peer);
  TlsChannelCredentialsOptions options;
  options.set_certificate_provider(ProviderOf(*identity));
  options.watch_identity_key_cert_pairs();
  // Or it would read all of the system's, which have no say here, and take 30 ms. Under a name of
  // their own: gRPC 1.51 stops to look after the key and chain that a server watches once a channel
  // begins to watch roots of the same name.
  options.watch_root_certs();
  options.set_root_cert_name("roots");
  // SvidVerifier does it, against the identity's bundle of that moment.
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(ExternalCertificateVerifier::Create<SvidVerifier>(
      std::move(identity), clock, std::move(expected), std::move(observer)));
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> JoinChannelCredentials(std::string bundle_sha256,
                                                                 const Clock* clock) {
  TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<StaticDataCertificateProvider>(kNobodysRoot));
  options.watch_root_certs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      ExternalCertificateVerifier::Create<PinnedBundleVerifier>(std::move(bundle_sha256), clock));
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::Channel> Dial(const std::string& address,
                                    std::shared_ptr<grpc::ChannelCredentials> credentials) {
  KeepCallbackThreads();
  grpc::ChannelArguments args = ChannelSettings();
  args.SetServiceConfigJSON("{}");
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, args,
                                                                 MakeClientInterceptors());
}

std::shared_ptr<grpc::Channel> Dial(const std::string& address,
                                    std::shared_ptr<const Identity> identity, const Clock* clock,
                                    absl::string_view expected_peer) {
  return Dial(address, MutualTlsChannelCredentials(std::move(identity), clock, expected_peer));
}

}  // namespace capstan::rpc
