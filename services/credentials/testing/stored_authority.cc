#include "services/credentials/testing/stored_authority.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/rpc/x509.h"
#include "libs/store/sqlite_store.h"
#include "libs/store/store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/adapters/envelope.h"
#include "services/credentials/adapters/openssl_secret_source.h"
#include "services/credentials/core/event.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

std::vector<v1::JwtKeyRecord> JwtKeys(store::Store* store) {
  store::RangeRequest request;
  request.key = kJwtKeyPrefix;
  request.end = store::PrefixEnd(kJwtKeyPrefix);
  absl::Notification over;
  std::vector<v1::JwtKeyRecord> records;
  store->Range(std::move(request), [&](absl::StatusOr<store::RangeResult> found) {
    for (const store::KeyValue& kv : found.value().kvs) {
      records.emplace_back().ParseFromString(kv.value);
    }
    over.Notify();
  });
  over.WaitForNotification();
  return records;
}

}  // namespace

StoredAuthority::StoredAuthority(const std::string& folder) {
  const SystemClock clock;
  ThreadStrand strand("authority", &clock);
  OpenSslSecretSource secrets;
  const auto store = store::SqliteStore::Open(folder + "/store.sqlite", &strand).value();
  TrustDomainOptions options;
  options.key_file = folder + "/key_keeper.key";
  domain_ = OpenTrustDomain(options, store.get(), &secrets, clock.Read().wall).value();
  // It was to be there: a made one would not be the platform's.
  if (domain_.first_run.has_value()) domain_.signer = nullptr;
  const std::string& name = domain_.record.name();
  private_keys_.push_back(
      OpenEnvelope(domain_.record.ca_key(), absl::StrCat("capstan-ca/", name), domain_.keeper.get())
          .value());
  for (const v1::JwtKeyRecord& key : JwtKeys(store.get())) {
    private_keys_.push_back(OpenEnvelope(key.private_jwk(),
                                         absl::StrCat("capstan-jwt/", name, "/", key.key_id()),
                                         domain_.keeper.get())
                                .value());
  }
  domain_.keeper = nullptr;
  strand.Stop();
}

rpc::Svid StoredAuthority::Issue(absl::string_view uri, absl::Time not_before,
                                 absl::Time not_after) const {
  const rpc::PrivateKey key = rpc::PrivateKey::Generate().value();
  IssueOrder order;
  order.spiffe_id = std::string(uri);
  order.spki = key.PublicKey();
  // Any number will do: what a test shows is not in the service's books.
  order.serial = rpc::Sha256Hex(order.spki).substr(0, 30);
  order.not_before = not_before;
  order.not_after = not_after;
  rpc::Svid svid;
  svid.key_pem = key.ToPem();
  svid.chain = {domain_.signer->Sign(order).value()};
  svid.bundle.assign(domain_.record.roots().begin(), domain_.record.roots().end());
  return svid;
}

}  // namespace capstan::credentials
