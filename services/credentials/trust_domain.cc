#include "services/credentials/trust_domain.h"

#include <openssl/crypto.h>

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/credentials/adapters/certificate_authority.h"
#include "services/credentials/adapters/envelope.h"
#include "services/credentials/adapters/file_key_keeper.h"
#include "services/credentials/adapters/openssl_signer.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

absl::StatusOr<store::RangeResult> BlockingRange(store::Store* store, store::RangeRequest request) {
  absl::Notification over;
  absl::StatusOr<store::RangeResult> result = absl::UnknownError("no answer");
  store->Range(std::move(request), [&](absl::StatusOr<store::RangeResult> answer) {
    result = std::move(answer);
    over.Notify();
  });
  over.WaitForNotification();
  return result;
}

// Binds a sealed key to the trust domain that it is the CA of.
std::string ContextOf(const v1::TrustDomainRecord& record) {
  return absl::StrCat("capstan-ca/", record.name());
}

absl::StatusOr<TrustDomain> Open(v1::TrustDomainRecord record, KeyKeeper* keeper) {
  if (record.roots().empty()) {
    return status::Error(absl::StatusCode::kDataLoss, "TRUST_DOMAIN_DAMAGED",
                         "The stored trust domain has no root certificate.");
  }
  CAPSTAN_ASSIGN_OR_RETURN(std::string key,
                           OpenEnvelope(record.ca_key(), ContextOf(record), keeper));
  TrustDomain domain;
  auto signer = OpenSslSigner::Create(record.roots(record.roots_size() - 1), key);
  OPENSSL_cleanse(key.data(), key.size());
  if (!signer.ok()) return signer.status();
  domain.signer = *std::move(signer);
  domain.record = std::move(record);
  return domain;
}

absl::StatusOr<v1::TrustDomainRecord> Make(const TrustDomainOptions& options, KeyKeeper* keeper,
                                           SecretSource* secrets, absl::Time now) {
  v1::TrustDomainRecord record;
  record.set_schema(kSchema);
  record.set_name(options.new_name);
  if (options.new_name.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string random, secrets->Bytes(4));
    record.set_name(absl::StrCat("capstan-", absl::BytesToHexString(random), ".local"));
  }
  CAPSTAN_ASSIGN_OR_RETURN(CertificateAuthority authority,
                           MakeCertificateAuthority(record.name(), now, secrets));
  record.add_roots(authority.root);
  record.set_bundle_sequence(1);
  auto sealed = SealEnvelope(authority.private_key, ContextOf(record), keeper, secrets);
  OPENSSL_cleanse(authority.private_key.data(), authority.private_key.size());
  if (!sealed.ok()) return sealed.status();
  *record.mutable_ca_key() = *std::move(sealed);
  *record.mutable_create_time() = ToProto(now);
  return record;
}

}  // namespace

absl::StatusOr<TrustDomain> OpenTrustDomain(const TrustDomainOptions& options, store::Store* store,
                                            SecretSource* secrets, absl::Time now) {
  store::RangeRequest request;
  request.key = kTrustDomainKey;
  CAPSTAN_ASSIGN_OR_RETURN(const store::RangeResult found, BlockingRange(store, request));
  const bool exists = !found.kvs.empty();
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<FileKeyKeeper> keeper,
                           FileKeyKeeper::Open(options.key_file, /*create=*/!exists, secrets));
  if (exists) {
    v1::TrustDomainRecord record;
    if (!record.ParseFromString(found.kvs[0].value)) {
      return status::Error(absl::StatusCode::kDataLoss, "TRUST_DOMAIN_DAMAGED",
                           "The stored trust domain cannot be read.");
    }
    CAPSTAN_ASSIGN_OR_RETURN(TrustDomain domain, Open(std::move(record), keeper.get()));
    domain.keeper = std::move(keeper);
    return domain;
  }
  CAPSTAN_ASSIGN_OR_RETURN(v1::TrustDomainRecord record, Make(options, keeper.get(), secrets, now));
  FirstRun first_run;
  first_run.trust_domain = record;
  first_run.admin_uid = options.admin_uid;
  CAPSTAN_ASSIGN_OR_RETURN(const std::string random, secrets->Bytes(8));
  uint64_t seed = 0;
  for (char byte : random) seed = seed << 8 | static_cast<unsigned char>(byte);
  first_run.project_uid = Random(seed).Uuid4();
  CAPSTAN_ASSIGN_OR_RETURN(TrustDomain domain, Open(std::move(record), keeper.get()));
  domain.first_run = std::move(first_run);
  domain.keeper = std::move(keeper);
  return domain;
}

}  // namespace capstan::credentials
