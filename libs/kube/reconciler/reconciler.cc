#include "libs/kube/reconciler/reconciler.h"

#include "libs/status/error.h"

namespace capstan::kube {
namespace {

// Of what was there at first; a change has 0.
constexpr int kInitialPriority = -1;

}  // namespace

Reconciler::Reconciler(ReconcilerOptions options, ReconcileFunction reconcile,
                       ReconcilerDependencies dependencies)
    : options_(std::move(options)),
      reconcile_(std::move(reconcile)),
      dependencies_(std::move(dependencies)),
      queue_metrics_(dependencies_.metrics == nullptr ? absl::nullopt
                                                      : absl::make_optional<WorkQueueMetrics>(
                                                            dependencies_.metrics, options_.name)),
      metrics_(dependencies_.metrics == nullptr
                   ? absl::nullopt
                   : absl::make_optional<ReconcilerMetrics>(dependencies_.metrics, options_.name)),
      queue_(options_.queue, &dependencies_.strand->clock(),
             queue_metrics_.has_value() ? &*queue_metrics_ : nullptr) {}

Reconciler::~Reconciler() { Stop(); }

void Reconciler::Start() {
  {
    absl::MutexLock lock(&mutex_);
    unsynced_ = sources_.size();
  }
  for (const auto& subscribe : sources_) subscriptions_.push_back(subscribe());
  for (int i = 0; i < options_.workers; ++i) workers_.emplace_back([this] { Work(); });
}

void Reconciler::Stop(bool drain) {
  subscriptions_.clear();
  {
    absl::MutexLock lock(&mutex_);
    if (unsynced_ > 0) drain = false;
    stopping_ = true;
  }
  queue_.ShutDown(drain);
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

std::map<ObjectKey, absl::Status> Reconciler::failing() const {
  absl::MutexLock lock(&mutex_);
  return failing_;
}

void Reconciler::AddAll(const std::vector<ObjectKey>& keys, bool initial) {
  for (const ObjectKey& key : keys) queue_.Add(key, initial ? kInitialPriority : 0);
}

void Reconciler::OnSourceSynced() {
  absl::MutexLock lock(&mutex_);
  --unsynced_;
}

void Reconciler::Work() {
  {
    absl::ReaderMutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Reconciler::MayWork));
    if (unsynced_ > 0) return;
  }
  while (const absl::optional<ObjectKey> key = queue_.Get()) {
    OnResult(*key, reconcile_(*key));
    queue_.Done(*key);
  }
}

void Reconciler::OnResult(const ObjectKey& key, const absl::StatusOr<ReconcileResult>& result) {
  if (metrics_.has_value()) metrics_->Count(result.ok());
  if (result.ok()) {
    queue_.Forget(key);
    if (result->requeue_after.has_value()) queue_.AddAfter(key, *result->requeue_after);
  } else {
    queue_.AddRateLimited(key);
  }
  bool is_new = false, is_over = false;
  {
    absl::MutexLock lock(&mutex_);
    if (result.ok()) {
      is_over = failing_.erase(key) > 0;
    } else {
      absl::Status& last = failing_[key];
      is_new = last.code() != result.status().code() ||
               status::Reason(last) != status::Reason(result.status());
      last = result.status();
    }
  }
  if (!dependencies_.log.has_value()) return;
  if (is_new) {
    dependencies_.log->Warning(
        "reconcile failed",
        {{"reconciler", options_.name}, {"key", key.ToString()}, {"error", result.status()}});
  }
  if (is_over) {
    dependencies_.log->Info("reconciled again",
                            {{"reconciler", options_.name}, {"key", key.ToString()}});
  }
}

}  // namespace capstan::kube
