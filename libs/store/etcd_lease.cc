#include "libs/store/etcd_lease.h"

#include <algorithm>
#include <utility>

#include "libs/rpc/session_client.h"
#include "libs/store/etcd_errors.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

using LeaseCalls = etcdserverpb::Lease::StubInterface::async_interface;

// One keep-alive: etcd offers a stream only, which is opened for it and closed after the answer, so
// that each is counted from its own call.
class KeepAlive : public std::enable_shared_from_this<KeepAlive> {
 public:
  KeepAlive(std::shared_ptr<EtcdClient> client, LeaseId lease, Callback<absl::Duration> done)
      : client_(std::move(client)),
        lease_(lease),
        until_(client_->CallDeadline()),
        done_(std::move(done)),
        backoff_(client_->random(),
                 {.initial = absl::Milliseconds(20), .max = absl::Milliseconds(500)}) {}

  void Try() {
    if (client_->closed()) return done_(ClosedError());
    client_->WithToken([self = shared_from_this()](absl::Status ready) {
      if (!ready.ok()) return self->Again(ready);
      self->Open();
    });
  }

 private:
  using Answer = etcdserverpb::LeaseKeepAliveResponse;

  void Open() {
    endpoint_ = client_->current();
    answered_ = false;
    rpc::CallOptions options = client_->StreamOptions();
    options.deadline = std::max(absl::Milliseconds(10), std::min(client_->options().attempt_timeout,
                                                                 until_ - client_->Now()));
    rpc::SessionCallbacks<Answer> callbacks;
    callbacks.on_message = [self = shared_from_this()](const Answer& answer) {
      self->session_->Finish(absl::OkStatus());
      if (!std::exchange(self->answered_, true)) self->Finish(answer);
    };
    callbacks.on_closed = [self = shared_from_this()](const absl::Status& why) {
      self->session_.reset();
      if (!self->answered_) self->Again(why);
    };
    session_ = rpc::OpenSession(client_->lease_stub(), &LeaseCalls::LeaseKeepAlive,
                                client_->strand(), std::move(callbacks), options);
    etcdserverpb::LeaseKeepAliveRequest request;
    request.set_id(lease_);
    session_->Send(std::move(request)).IgnoreError();
  }

  void Finish(const Answer& answer) {
    const absl::Status same = client_->CheckCluster(answer.header());
    if (!same.ok()) return done_(same);
    if (answer.ttl() <= 0) return done_(NoLeaseError(lease_));
    done_(absl::Seconds(answer.ttl()));
  }

  void Again(const absl::Status& why) {
    const EtcdOutcome outcome = ClassifyEtcdError(why);
    if (outcome == EtcdOutcome::kAnswered) return done_(TranslateEtcdError(why));
    if (outcome == EtcdOutcome::kUnauthenticated) {
      client_->DropToken();
    } else {
      client_->Suspect(endpoint_);
    }
    const absl::Duration delay = backoff_.Next();
    if (client_->Now() + delay >= until_) return done_(UnreachableError(why));
    client_->strand()->RunAfter(delay, [self = shared_from_this()] { self->Try(); });
  }

  const std::shared_ptr<EtcdClient> client_;
  const LeaseId lease_;
  const BootTime until_;
  Callback<absl::Duration> done_;
  rpc::Backoff backoff_;
  std::shared_ptr<rpc::Session<Answer, etcdserverpb::LeaseKeepAliveRequest>> session_;
  size_t endpoint_ = 0;
  bool answered_ = false;
};

}  // namespace

void GrantEtcdLease(std::shared_ptr<EtcdClient> client, absl::Duration ttl,
                    Callback<LeaseId> done) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1))));
  // A lease that was granted without our knowledge runs out by itself.
  const BootTime until = client->CallDeadline();
  client->Call<etcdserverpb::Lease>(
      &LeaseCalls::LeaseGrant, request, EtcdClient::Repeat::kAlways, until,
      [done = std::move(done)](absl::StatusOr<etcdserverpb::LeaseGrantResponse> lease) mutable {
        if (!lease.ok()) return done(lease.status());
        done(lease->id());
      });
}

void KeepAliveEtcdLease(std::shared_ptr<EtcdClient> client, LeaseId lease,
                        Callback<absl::Duration> done) {
  std::make_shared<KeepAlive>(std::move(client), lease, std::move(done))->Try();
}

void RevokeEtcdLease(std::shared_ptr<EtcdClient> client, LeaseId lease, DoneCallback done) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  const BootTime until = client->CallDeadline();
  client->Call<etcdserverpb::Lease>(
      &LeaseCalls::LeaseRevoke, request, EtcdClient::Repeat::kAlways, until,
      [done = std::move(done)](absl::StatusOr<etcdserverpb::LeaseRevokeResponse> gone) mutable {
        done(gone.status());
      });
}

}  // namespace capstan::store
