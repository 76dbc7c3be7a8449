#ifndef CAPSTAN_LIBS_STORE_ETCD_CLIENT_H_
#define CAPSTAN_LIBS_STORE_ETCD_CLIENT_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libs/random/random.h"
#include "libs/rpc/backoff.h"
#include "libs/rpc/call.h"
#include "libs/store/etcd_errors.h"
#include "libs/store/etcd_options.h"
#include "libs/store/store.h"
#include "libs/store/txn_rules.h"
#include "libs/strand/strand.h"
#include "proto/etcd/etcdserverpb/rpc.grpc.pb.h"
#include "proto/etcd/etcdserverpb/rpc.pb.h"

namespace capstan::store {

// The way to etcd: a channel to each member, of which one is used until it fails, the user's token,
// and attempts. Shared by all that an EtcdStore has under way; on its strand only.
class EtcdClient : public std::enable_shared_from_this<EtcdClient> {
 public:
  // What may be sent again.
  enum class Repeat {
    // Anything: it changes nothing, or a second time changes nothing more.
    kAlways,
    // Only what was surely not carried out; else OUTCOME_UNKNOWN.
    kIfNotExecuted,
  };

  // `strand` must outlive it.
  EtcdClient(EtcdOptions options, Strand* strand);

  // Calls `method` of `Service` with one member after another until it is answered or `until` has
  // come; `done` gets errors in the words of store.h, and STORE_CLOSED once closed.
  template <typename Service, typename Async, typename Request, typename Response>
  void Call(void (Async::*method)(grpc::ClientContext*, const Request*, Response*,
                                  std::function<void(grpc::Status)>),
            std::type_identity_t<Request> request, Repeat repeat, BootTime until,
            std::type_identity_t<Callback<Response>> done) {
    auto call = std::make_shared<PendingCall<Service, Async, Request, Response>>(
        shared_from_this(), method, std::move(request), repeat, until, std::move(done));
    if (closed_) return call->Finish(ClosedError());
    calls_.insert(call);
    call->Try();
  }

  // For streams, which are their owners' to open and to open again.
  // The member in use now.
  size_t current() const { return current_; }
  etcdserverpb::Watch::Stub* watch_stub() { return endpoints_[current_].watch.get(); }
  etcdserverpb::Lease::Stub* lease_stub() { return endpoints_[current_].lease.get(); }
  // With the token, if there is one. Ends when the member has lost its leader.
  rpc::CallOptions StreamOptions() const;
  // Runs `next` once there is a token, or none is needed; with why there is none.
  void WithToken(DoneCallback next);
  // The member failed: another one is used from now on, and whoever has a stream with it is told.
  void Suspect(size_t endpoint);
  void set_on_suspect(std::function<void(size_t endpoint)> on_suspect) {
    on_suspect_ = std::move(on_suspect);
  }
  // The token that was in use no longer is.
  void DropToken() { token_.clear(); }
  // STORE_REPLACED if the header is of another cluster than those before.
  absl::Status CheckCluster(const etcdserverpb::ResponseHeader& header);
  uint64_t cluster_id() const { return cluster_id_; }

  // What may be sent again gets STORE_CLOSED now; a transaction under way its answer when it comes.
  void Close();
  bool closed() const { return closed_; }

  const EtcdOptions& options() const { return options_; }
  Strand* strand() const { return strand_; }
  Random* random() { return &random_; }
  BootTime Now() const { return strand_->clock().Read().boot; }
  BootTime CallDeadline() const { return Now() + options_.call_timeout; }

 private:
  // A call until its end, to whoever closes the client.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void ClientClosed() = 0;
  };

  template <typename Service, typename Async, typename Request, typename Response>
  class PendingCall final
      : public Pending,
        public std::enable_shared_from_this<PendingCall<Service, Async, Request, Response>> {
   public:
    using Method = void (Async::*)(grpc::ClientContext*, const Request*, Response*,
                                   std::function<void(grpc::Status)>);
    PendingCall(std::shared_ptr<EtcdClient> client, Method method, Request request, Repeat repeat,
                BootTime until, Callback<Response> done)
        : client_(std::move(client)),
          method_(method),
          request_(std::move(request)),
          repeat_(repeat),
          until_(until),
          done_(std::move(done)),
          backoff_(&client_->random_, kBetweenAttempts) {}

    void Try() {
      auto self = this->shared_from_this();
      endpoint_ = client_->current_;
      client_->WithToken([self](absl::Status ready) {
        if (self->done_ == nullptr) return;
        if (!ready.ok()) return self->Failed(ready);
        self->Send();
      });
    }

    void Finish(absl::StatusOr<Response> result) {
      Callback<Response> done = std::exchange(done_, nullptr);
      client_->calls_.erase(this->shared_from_this());
      done(std::move(result));
    }

    void ClientClosed() override {
      // What is on its way may have been carried out; its answer will tell.
      if (repeat_ == Repeat::kIfNotExecuted && sent_) return;
      Finish(ClosedError());
    }

   private:
    void Send() {
      auto self = this->shared_from_this();
      sent_ = true;
      endpoint_ = client_->current_;
      token_ = client_->token_;
      rpc::CallUnary(client_->template Stub<Service>(), method_, request_,
                     client_->AttemptOptions(until_), client_->strand_,
                     [self](absl::StatusOr<Response> result) {
                       if (self->done_ == nullptr) return;
                       self->sent_ = false;
                       self->Answered(std::move(result));
                     });
    }

    void Answered(absl::StatusOr<Response> result) {
      if (!result.ok()) return Failed(result.status());
      const absl::Status same = client_->CheckCluster(result->header());
      if (!same.ok()) return Finish(same);
      Finish(std::move(result));
    }

    void Failed(const absl::Status& why) {
      const EtcdOutcome outcome = ClassifyEtcdError(why);
      if (outcome == EtcdOutcome::kAnswered) return Finish(TranslateEtcdError(why));
      if (outcome == EtcdOutcome::kUnauthenticated) {
        if (token_ == client_->token_) client_->DropToken();
        // With a fresh token it should have been taken.
        if (client_->options_.user.empty() || ++refused_ > kTokensTried) {
          return Finish(absl::UnauthenticatedError(why.message()));
        }
      } else {
        client_->Suspect(endpoint_);
      }
      if (outcome == EtcdOutcome::kUnknown && repeat_ == Repeat::kIfNotExecuted) {
        return Finish(OutcomeUnknownError(why));
      }
      if (client_->closed_) return Finish(ClosedError());
      const absl::Duration delay = backoff_.Next();
      if (client_->Now() + delay >= until_) return Finish(UnreachableError(why));
      client_->strand_->RunAfter(delay, [self = this->shared_from_this()] {
        if (self->done_ != nullptr) self->Try();
      });
    }

    const std::shared_ptr<EtcdClient> client_;
    const Method method_;
    const Request request_;
    const Repeat repeat_;
    const BootTime until_;
    Callback<Response> done_;
    rpc::Backoff backoff_;
    // Of the attempt under way.
    size_t endpoint_ = 0;
    std::string token_;
    bool sent_ = false;
    int refused_ = 0;
  };

  struct Endpoint {
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Watch::Stub> watch;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
    std::unique_ptr<etcdserverpb::Maintenance::Stub> maintenance;
    std::unique_ptr<etcdserverpb::Auth::Stub> auth;
  };

  static constexpr rpc::BackoffConfig kBetweenAttempts = {.initial = absl::Milliseconds(20),
                                                          .max = absl::Milliseconds(500)};
  static constexpr int kTokensTried = 3;

  // Of the member in use.
  template <typename Service>
  typename Service::Stub* Stub() {
    Endpoint& endpoint = endpoints_[current_];
    if constexpr (std::is_same_v<Service, etcdserverpb::KV>) return endpoint.kv.get();
    if constexpr (std::is_same_v<Service, etcdserverpb::Lease>) return endpoint.lease.get();
    if constexpr (std::is_same_v<Service, etcdserverpb::Maintenance>) {
      return endpoint.maintenance.get();
    }
    if constexpr (std::is_same_v<Service, etcdserverpb::Auth>) return endpoint.auth.get();
  }
  rpc::CallOptions AttemptOptions(BootTime until) const;
  void Authenticate();

  const EtcdOptions options_;
  Strand* const strand_;
  Random random_;
  std::vector<Endpoint> endpoints_;
  size_t current_ = 0;
  std::function<void(size_t)> on_suspect_;
  std::string token_;
  bool authenticating_ = false;
  std::vector<DoneCallback> wait_for_token_;
  uint64_t cluster_id_ = 0;
  absl::Status replaced_;
  std::set<std::shared_ptr<Pending>> calls_;
  bool closed_ = false;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_CLIENT_H_
