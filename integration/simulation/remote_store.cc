#include "integration/simulation/remote_store.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "libs/status/error.h"
#include "services/credentials/core/store_key.h"

namespace capstan::simulation {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(5);
constexpr absl::Duration kRetry = absl::Milliseconds(300);
constexpr size_t kWatchBatchBytes = 1 << 20;

}  // namespace

struct RemoteStore::Watcher {
  store::WatchRequest request;
  absl::AnyInvocable<void(absl::StatusOr<store::WatchBatch>)> on_batch;
  int64_t next = 0;
  bool greeted = false;
};

class RemoteStore::WatchHandle final : public store::Watch {
 public:
  explicit WatchHandle(std::shared_ptr<Watcher> watcher) : watcher_(std::move(watcher)) {}

 private:
  const std::shared_ptr<Watcher> watcher_;
};

template <typename T>
void RemoteStore::Call(const std::function<absl::StatusOr<T>()>& serve, absl::Duration takes,
                       store::Callback<T> done) {
  auto shared = std::make_shared<store::Callback<T>>(std::move(done));
  auto finish = [process = process_, life = life_, shared](absl::StatusOr<T> result) {
    process->Run(life, [shared, result = std::move(result)]() mutable {
      if (*shared == nullptr) return;
      std::exchange(*shared, nullptr)(std::move(result));
    });
  };
  World& world = network_->world();
  world.After(kDeadline, [finish] {
    finish(absl::UnavailableError("simulated: the store has not answered"));
  });
  const std::string& name = process_->name();
  // Not by `this`: what is on its way outlives the life that has sent it.
  world.After(
      network_->Delay(name, StoreServer::kName), [network = network_, name, takes, serve, finish] {
        if (!network->Passes(name, StoreServer::kName)) return;
        network->world().After(takes, [network, name, serve, finish] {
          absl::StatusOr<T> result = serve();
          if (!network->Passes(StoreServer::kName, name)) return;
          network->world().After(
              network->Delay(StoreServer::kName, name),
              [finish, result = std::move(result)]() mutable { finish(std::move(result)); });
        });
      });
}

void RemoteStore::Range(store::RangeRequest request, store::Callback<store::RangeResult> done) {
  Call<store::RangeResult>(
      [server = server_, mutants = mutants_, request]() -> absl::StatusOr<store::RangeResult> {
        auto found = server->map.Range(request);
        if (found.ok() && mutants->credentials_forgets_denials) {
          auto& kvs = found->kvs;
          kvs.erase(std::remove_if(kvs.begin(), kvs.end(),
                                   [](const store::KeyValue& kv) {
                                     return absl::StartsWith(kv.key, credentials::kDenyPrefix);
                                   }),
                    kvs.end());
        }
        return found;
      },
      absl::ZeroDuration(), std::move(done));
}

store::TxnResult StoreServer::Seeming() const {
  store::TxnResult result;
  result.succeeded = true;
  result.revision = map.revision() + 1;
  return result;
}

absl::StatusOr<store::TxnResult> StoreServer::Apply(const store::TxnRequest& request) {
  const bool puts = std::any_of(request.then.begin(), request.then.end(), [](const store::Op& op) {
    return std::holds_alternative<store::Put>(op);
  });
  if (disk.full && puts) {
    if (disk.lies) return Seeming();
    return status::Error(absl::StatusCode::kResourceExhausted, store::kReasonNoSpace,
                         "simulated: the store is full");
  }
  auto result = map.Apply(request, [](store::LeaseId) { return false; });
  if (!result.ok() || !result->succeeded) return result;
  std::vector<store::Put> written;
  std::vector<store::Delete> gone;
  for (const store::Op& op : request.then) {
    if (const auto* put = std::get_if<store::Put>(&op)) written.push_back(*put);
    if (const auto* deleted = std::get_if<store::Delete>(&op)) gone.push_back(*deleted);
  }
  disk.Apply(written, gone);
  applied();
  for (const auto& look : std::exchange(waiting, {})) look();
  return result;
}

void RemoteStore::Txn(store::TxnRequest request, store::Callback<store::TxnResult> done) {
  if (mutants_->credentials_skips_compare) request.compares.clear();
  Random& random = network_->world().random();
  if (mutants_->credentials_acts_first) {
    process_->Later(absl::Milliseconds(1),
                    [result = server_->Seeming(), done = std::make_shared<decltype(done)>(
                                                      std::move(done))] { (*done)(result); });
    done = [](const absl::StatusOr<store::TxnResult>&) {};
  }
  const absl::Duration slowest =
      mutants_->credentials_acts_first ? absl::Seconds(5) : absl::Milliseconds(20);
  Call<store::TxnResult>(
      [world = &network_->world(), server = server_,
       request = std::move(request)]() -> absl::StatusOr<store::TxnResult> {
        if (!server->disk.failing || server->disk.full) return server->Apply(request);
        // As EtcdStore: what is to be done after the error meets what it left, and nothing of it
        // comes later.
        if (!FailedCommitIsThere(world)) {
          if (server->disk.lies) return server->Seeming();
        } else if (auto done = server->Apply(request); server->disk.lies) {
          return done;
        }
        return status::Error(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN",
                             "simulated: the store's disk fails");
      },
      random.Between(absl::Milliseconds(1), std::max(slowest, server_->disk.slowest)),
      std::move(done));
}

std::unique_ptr<store::Watch> RemoteStore::StartWatch(
    store::WatchRequest request,
    absl::AnyInvocable<void(absl::StatusOr<store::WatchBatch>)> on_batch) {
  auto watcher = std::make_shared<Watcher>();
  watcher->next = request.start_revision;
  watcher->request = std::move(request);
  watcher->on_batch = std::move(on_batch);
  Feed(network_, process_, life_, server_, watcher,
       network_->Delay(StoreServer::kName, process_->name()));
  return std::make_unique<WatchHandle>(std::move(watcher));
}

void RemoteStore::Feed(Network* network, Process* process, int64_t life, StoreServer* server,
                       const std::weak_ptr<Watcher>& watcher, absl::Duration delay) {
  network->world().After(delay, [network, process, life, server, watcher] {
    const std::shared_ptr<Watcher> fed = watcher.lock();
    if (fed == nullptr || !process->up() || process->life() != life) return;
    if (!network->Passes(StoreServer::kName, process->name()) ||
        !network->Passes(process->name(), StoreServer::kName)) {
      return Feed(network, process, life, server, watcher, kRetry);
    }
    const int64_t from = fed->next == 0 ? server->map.revision() + 1 : fed->next;
    auto batch = server->map.Events(fed->request.key, fed->request.end, from, kWatchBatchBytes);
    if (!batch.ok()) return network->world().Violate(batch.status().ToString());
    fed->next = std::max(from, batch->revision + 1);
    if (!fed->greeted || !batch->events.empty()) {
      fed->greeted = true;
      process->Run(life, [watcher, batch = *std::move(batch)] {
        if (const auto told = watcher.lock()) told->on_batch(batch);
      });
    }
    const auto again = [network, process, life, server, watcher] {
      Feed(network, process, life, server, watcher,
           network->Delay(StoreServer::kName, process->name()));
    };
    if (fed->next <= server->map.revision()) return again();
    server->waiting.push_back(again);
  });
}

void RemoteStore::GrantLease(absl::Duration, store::Callback<store::LeaseId> done) {
  done(absl::UnimplementedError("simulated"));
}
void RemoteStore::KeepAliveLease(store::LeaseId, store::Callback<absl::Duration> done) {
  done(absl::UnimplementedError("simulated"));
}
void RemoteStore::RevokeLease(store::LeaseId, store::DoneCallback done) {
  done(absl::UnimplementedError("simulated"));
}
void RemoteStore::Compact(int64_t, store::DoneCallback done) {
  done(absl::UnimplementedError("simulated"));
}

}  // namespace capstan::simulation
