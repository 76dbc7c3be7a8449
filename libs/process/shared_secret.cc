#include "libs/process/shared_secret.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "openssl/rand.h"

namespace capstan::process {
namespace {

constexpr size_t kBytes = 32;

}  // namespace

absl::StatusOr<std::string> ShareSecret(store::Store* store, Strand* strand,
                                        const std::string& key) {
  std::string fresh(kBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(fresh.data()), kBytes) != 1) {
    return status::Error(absl::StatusCode::kInternal, "NO_RANDOMNESS",
                         "OpenSSL has no random bytes to give");
  }
  store::TxnRequest request;
  request.compares.push_back({.key = key,
                              .target = store::Compare::Target::kCreateRevision,
                              .op = store::Compare::Op::kEqual,
                              .number = 0});
  request.then.emplace_back(store::Put{.key = key, .value = fresh});
  store::RangeRequest range;
  range.key = key;
  request.otherwise.emplace_back(std::move(range));
  absl::StatusOr<store::TxnResult> result;
  absl::Notification done;
  strand->Post([&] {
    store->Txn(std::move(request), [&](absl::StatusOr<store::TxnResult> answer) {
      result = std::move(answer);
      done.Notify();
    });
  });
  done.WaitForNotification();
  if (!result.ok()) return status::Annotate(result.status(), "sharing a secret");
  if (result->succeeded) return fresh;
  if (result->ranges.size() != 1 || result->ranges[0].kvs.size() != 1 ||
      result->ranges[0].kvs[0].value.size() != kBytes) {
    return status::Error(absl::StatusCode::kDataLoss, "BAD_SECRET",
                         "what is stored as a shared secret is none", {{"key", key}});
  }
  return result->ranges[0].kvs[0].value;
}

}  // namespace capstan::process
