#include "libs/store/etcd_store.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"
#include "libs/store/etcd_client.h"
#include "libs/store/etcd_errors.h"
#include "libs/store/etcd_lease.h"
#include "libs/store/etcd_messages.h"
#include "libs/store/etcd_range.h"
#include "libs/store/etcd_txn_queue.h"
#include "libs/store/etcd_watcher.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

using KvCalls = etcdserverpb::KV::StubInterface::async_interface;
using LeaseCalls = etcdserverpb::Lease::StubInterface::async_interface;
using MaintenanceCalls = etcdserverpb::Maintenance::StubInterface::async_interface;

// The first that tells of progress only after the events before it.
constexpr int kMinMajor = 3;
constexpr int kMinMinor = 6;
// Of the lease whose id names the first session: the id is what is wanted.
constexpr absl::Duration kSessionTtl = absl::Minutes(1);

absl::Status CheckVersion(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  int major = 0;
  int minor = 0;
  if (parts.size() >= 2 && absl::SimpleAtoi(parts[0], &major) &&
      absl::SimpleAtoi(parts[1], &minor) &&
      std::make_pair(major, minor) >= std::make_pair(kMinMajor, kMinMinor)) {
    return absl::OkStatus();
  }
  return status::Error(
      absl::StatusCode::kFailedPrecondition, kReasonTooOld,
      absl::StrCat("etcd has version ", version, "; before 3.6 its watches may miss events"),
      {{"version", version}});
}

absl::Status CheckOptions(const EtcdOptions& options) {
  status::FieldErrors errors;
  if (options.endpoints.empty()) errors.Add("endpoints", "names no member");
  if (options.ca_file.empty()) errors.Add("ca_file", "is needed: etcd is reached by TLS only");
  if (options.certificate_file.empty() != options.key_file.empty()) {
    errors.Add("key_file", "certificate and key go together");
  }
  if (options.incarnation == 0 && options.prefix.empty()) {
    errors.Add("prefix", "is needed for the store's own keys");
  }
  if (options.user.empty() != options.password.empty()) {
    errors.Add("password", "user and password go together");
  }
  return errors.ToStatus();
}

}  // namespace

// What the calls share. On the strand; lives as long as something is under way.
class EtcdStore::Body : public std::enable_shared_from_this<EtcdStore::Body> {
 public:
  Body(std::shared_ptr<EtcdClient> client, LeaseId session, int64_t incarnation, StoreGuard guard)
      : strand_(client->strand()),
        incarnation_(incarnation),
        client_(std::move(client)),
        txns_(std::make_shared<EtcdTxnQueue>(client_, session, std::move(guard))) {}

  void Start() {
    client_->set_on_suspect([weak = weak_from_this()](size_t endpoint) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      for (const auto& watcher : std::vector(self->watchers_)) watcher->LeaveMember(endpoint);
    });
  }

  // Runs `task` on the strand, from any thread.
  template <typename Task>
  void Post(Task task) {
    strand_->Post([self = shared_from_this(), task = std::move(task)]() mutable { task(*self); });
  }

  void Range(RangeRequest request, Callback<RangeResult> done) {
    if (client_->closed()) return done(ClosedError());
    if (ranges_ >= client_->options().max_waiting) return done(OverloadedError(ranges_));
    ++ranges_;
    ReadEtcdRange(client_, paces_, std::move(request),
                  [self = shared_from_this(),
                   done = std::move(done)](absl::StatusOr<RangeResult> result) mutable {
                    --self->ranges_;
                    done(std::move(result));
                  });
  }

  void Add(std::shared_ptr<EtcdWatcher> watcher) {
    if (watcher->cancelled()) return;
    if (client_->closed()) return watcher->End(ClosedError());
    watchers_.push_back(watcher);
    watcher->Start();
  }

  void Remove(const std::shared_ptr<EtcdWatcher>& watcher) {
    watcher->CloseStream();
    watchers_.erase(std::remove(watchers_.begin(), watchers_.end(), watcher), watchers_.end());
  }

  void Compact(int64_t revision, DoneCallback done) {
    etcdserverpb::CompactionRequest request;
    request.set_revision(revision);
    client_->Call<etcdserverpb::KV>(
        &KvCalls::Compact, request, EtcdClient::Repeat::kAlways, client_->CallDeadline(),
        [done = std::move(done)](absl::StatusOr<etcdserverpb::CompactionResponse> result) mutable {
          // Forgotten already is as good as forgotten now.
          const bool before = status::Reason(result.status()) == kReasonCompacted;
          done(before ? absl::OkStatus() : result.status());
        });
  }

  void Close() {
    client_->Close();
    txns_->Close();
    for (const auto& watcher : std::exchange(watchers_, {})) watcher->End(ClosedError());
  }

  Strand* const strand_;
  const int64_t incarnation_;
  const std::shared_ptr<EtcdClient> client_;
  const std::shared_ptr<EtcdTxnQueue> txns_;
  const std::shared_ptr<EtcdPaces> paces_ = std::make_shared<EtcdPaces>();

 private:
  size_t ranges_ = 0;
  std::vector<std::shared_ptr<EtcdWatcher>> watchers_;
};

// The steps of Open. On the strand.
class EtcdStore::Opening : public std::enable_shared_from_this<EtcdStore::Opening> {
 public:
  Opening(EtcdOptions options, Strand* strand, Opened done)
      : client_(std::make_shared<EtcdClient>(std::move(options), strand)),
        until_(client_->CallDeadline()),
        done_(std::move(done)) {}

  void Start() {
    client_->Call<etcdserverpb::Maintenance>(
        &MaintenanceCalls::Status, {}, EtcdClient::Repeat::kAlways, until_,
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::StatusResponse> status) {
          // With users, the version is for root to see.
          if (!status.ok() && !absl::IsPermissionDenied(status.status())) {
            return self->Fail(status.status());
          }
          const absl::Status version =
              status.ok() ? CheckVersion(status->version()) : absl::OkStatus();
          if (!version.ok()) return self->Fail(version);
          self->BeginSession();
        });
  }

 private:
  void Fail(const absl::Status& why) {
    client_->Close();
    done_(status::Annotate(why, "opening the store"));
  }

  void BeginSession() {
    etcdserverpb::LeaseGrantRequest request;
    request.set_ttl(absl::ToInt64Seconds(kSessionTtl));
    client_->Call<etcdserverpb::Lease>(
        &LeaseCalls::LeaseGrant, request, EtcdClient::Repeat::kAlways, until_,
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::LeaseGrantResponse> lease) {
          if (!lease.ok()) return self->Fail(lease.status());
          self->session_ = lease->id();
          const int64_t given = self->client_->options().incarnation;
          if (given != 0) return self->Finish(given, {});
          self->ReadIncarnation();
        });
  }

  std::string IncarnationKey() const {
    return absl::StrCat(client_->options().prefix, "store/incarnation");
  }

  // It is stored with the id of the cluster it was stored in.
  void ReadIncarnation() {
    ReadEtcdRange(client_, nullptr, {.key = IncarnationKey()},
                  [self = shared_from_this()](absl::StatusOr<RangeResult> found) {
                    if (!found.ok()) return self->Fail(found.status());
                    self->Found(found->kvs.empty() ? KeyValue() : found->kvs[0]);
                  });
  }

  void Found(const KeyValue& kv) {
    const std::string cluster = absl::StrCat(absl::Hex(client_->cluster_id()));
    const std::vector<std::string> parts = absl::StrSplit(kv.value, ' ');
    int64_t stored = 0;
    if (kv.version != 0) {
      if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &stored)) {
        return Fail(absl::DataLossError(absl::StrCat(IncarnationKey(), " holds '", kv.value, "'")));
      }
      if (parts[1] == cluster) return CheckWhole(stored, kv.mod_revision);
    }
    const int64_t now = absl::ToUnixSeconds(client_->strand()->clock().Read().wall);
    TxnRequest store;
    store.compares.push_back(
        Compare{.key = kv.version == 0 ? IncarnationKey() : kv.key, .number = kv.mod_revision});
    store.then.push_back(
        Put{IncarnationKey(), absl::StrCat(std::max(stored + 1, now), " ", cluster)});
    auto encoded = ToEtcd(store, absl::StrCat(IncarnationKey(), "/fence"), {});
    if (!encoded.ok()) return Fail(encoded.status());
    // Whoever stored it, it is read again.
    client_->Call<etcdserverpb::KV>(
        &KvCalls::Txn, *std::move(encoded), EtcdClient::Repeat::kAlways, until_,
        [self = shared_from_this()](absl::StatusOr<etcdserverpb::TxnResponse> answer) {
          if (!answer.ok()) return self->Fail(answer.status());
          self->ReadIncarnation();
        });
  }

  // A store that a restore has begun to fill is none. A restore that begins after this look has put
  // the key of the incarnation anew: the guard finds it out.
  void CheckWhole(int64_t incarnation, int64_t mod_revision) {
    if (client_->options().restoring) return Finish(incarnation, {});
    StoreGuard guard{IncarnationKey(), mod_revision};
    const std::string mark = absl::StrCat(client_->options().prefix, "store/restore");
    ReadEtcdRange(
        client_, nullptr, {.key = mark},
        [self = shared_from_this(), mark, incarnation,
         guard = std::move(guard)](const absl::StatusOr<RangeResult>& found) {
          if (!found.ok()) return self->Fail(found.status());
          if (found->kvs.empty()) return self->Finish(incarnation, guard);
          self->Fail(status::Error(absl::StatusCode::kFailedPrecondition, "RESTORE_UNFINISHED",
                                   absl::StrCat("a restore of this store was not finished (", mark,
                                                " is there): run it again"),
                                   {{"key", mark}}));
        });
  }

  void Finish(int64_t incarnation, StoreGuard guard) {
    auto body = std::make_shared<Body>(client_, session_, incarnation, std::move(guard));
    body->Start();
    done_(std::unique_ptr<EtcdStore>(new EtcdStore(std::move(body))));
  }

  const std::shared_ptr<EtcdClient> client_;
  const BootTime until_;
  Opened done_;
  LeaseId session_ = 0;
};

void EtcdStore::Open(EtcdOptions options, Strand* strand, Opened done) {
  const absl::Status checked = CheckOptions(options);
  strand->Post([options = std::move(options), strand, checked, done = std::move(done)]() mutable {
    if (!checked.ok()) return done(checked);
    std::make_shared<Opening>(std::move(options), strand, std::move(done))->Start();
  });
}

EtcdStore::~EtcdStore() {
  body_->Post([](Body& body) { body.Close(); });
}

void EtcdStore::Range(RangeRequest request, Callback<RangeResult> done) {
  body_->Post([request = std::move(request), done = std::move(done)](Body& body) mutable {
    const absl::Status checked = CheckRange(request);
    if (!checked.ok()) return done(checked);
    body.Range(std::move(request), std::move(done));
  });
}

void EtcdStore::Txn(TxnRequest request, Callback<TxnResult> done) {
  body_->Post([request = std::move(request), done = std::move(done)](Body& body) mutable {
    const absl::Status checked = CheckTxn(request);
    if (!checked.ok()) return done(checked);
    if (body.client_->closed()) return done(ClosedError());
    body.txns_->Submit(std::move(request), std::move(done));
  });
}

std::unique_ptr<Watch> EtcdStore::StartWatch(
    WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) {
  class Handle final : public Watch {
   public:
    Handle(std::shared_ptr<Body> body, std::shared_ptr<EtcdWatcher> watcher)
        : body_(std::move(body)), watcher_(std::move(watcher)) {}
    ~Handle() override {
      watcher_->Cancel();
      body_->Post([watcher = watcher_](Body& body) { body.Remove(watcher); });
    }

   private:
    const std::shared_ptr<Body> body_;
    const std::shared_ptr<EtcdWatcher> watcher_;
  };
  const absl::Status checked = CheckWatch(request);
  auto watcher =
      std::make_shared<EtcdWatcher>(body_->client_, std::move(request), std::move(on_batch));
  body_->Post([watcher, checked](Body& body) {
    if (!checked.ok()) return watcher->End(checked);
    body.Add(watcher);
  });
  return std::make_unique<Handle>(body_, std::move(watcher));
}

void EtcdStore::GrantLease(absl::Duration ttl, Callback<LeaseId> done) {
  body_->Post([ttl, done = std::move(done)](Body& body) mutable {
    const absl::Status checked = CheckTtl(ttl);
    if (!checked.ok()) return done(checked);
    GrantEtcdLease(body.client_, ttl, std::move(done));
  });
}

void EtcdStore::KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) {
  body_->Post([lease, done = std::move(done)](Body& body) mutable {
    KeepAliveEtcdLease(body.client_, lease, std::move(done));
  });
}

void EtcdStore::RevokeLease(LeaseId lease, DoneCallback done) {
  body_->Post([lease, done = std::move(done)](Body& body) mutable {
    RevokeEtcdLease(body.client_, lease, std::move(done));
  });
}

void EtcdStore::Compact(int64_t revision, DoneCallback done) {
  body_->Post([revision, done = std::move(done)](Body& body) mutable {
    body.Compact(revision, std::move(done));
  });
}

int64_t EtcdStore::incarnation() const { return body_->incarnation_; }

}  // namespace capstan::store
