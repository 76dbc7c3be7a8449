#include "services/scheduler/committed_view.h"

#include <utility>

#include "absl/strings/match.h"
#include "libs/status/status_macros.h"
#include "services/scheduler/core/keys.h"

namespace capstan::scheduler {
namespace {

constexpr absl::Duration kRetryAfter = absl::Milliseconds(200);
// Jobs that readers may have unpacked while nothing changes.
constexpr size_t kMaxUnpacked = 1024;

}  // namespace

CommittedView::CommittedView(store::Store* store, Strand* strand, const log::Logger* logger)
    : store_(store),
      strand_(strand),
      logger_(logger),
      pool_(std::make_shared<RecordPool>()),
      seen_(std::make_unique<Seen>(pool_)) {}

CommittedView::~CommittedView() {
  if (retry_timer_ != 0) strand_->Cancel(retry_timer_);
}

void CommittedView::Start() { Read(); }

void CommittedView::Read() {
  read_ = std::make_unique<Seen>(pool_);
  reader_ = std::make_unique<RecordReader>(store_, /*revision=*/0);
  reader_->Next([this](absl::StatusOr<RecordReader::Page> page) { TakePage(std::move(page)); });
}

void CommittedView::TakePage(absl::StatusOr<RecordReader::Page> page) {
  if (!page.ok()) return TryAgain(page.status());
  // The store reads the next one while this one is taken.
  if (!page->last) {
    reader_->Next([this](absl::StatusOr<RecordReader::Page> next) { TakePage(std::move(next)); });
  }
  const absl::Status added = AddPage(*page);
  if (!added.ok()) return TryAgain(added);
  if (!page->last) return;
  // Everything may have changed since the last time.
  std::set<std::string> jobs;
  if (!listeners_.empty()) {
    for (auto at = read_->builder.model().jobs.begin(); at != read_->builder.model().jobs.end();
         ++at) {
      jobs.insert(std::string(at.glance().uid));
    }
  }
  node_revisions_.clear();
  seen_ = std::move(read_);
  queues_changed_ = orders_changed_ = true;
  first_revision_ = page->revision;
  ready_ = true;
  is_whole_ = true;
  Settle(page->revision, jobs);
  Follow();
}

absl::Status CommittedView::AddPage(const RecordReader::Page& page) {
  for (const store::KeyValue& kv : page.kvs) {
    CAPSTAN_RETURN_IF_ERROR(read_->builder.Apply(kv.key, absl::string_view(kv.value)));
  }
  CAPSTAN_RETURN_IF_ERROR(page.last ? read_->builder.Resolve() : read_->builder.ResolveComplete());
  // Nodes of the first read have no revisions of their own.
  std::set<NodeId> nodes;
  read_->Derive(read_->builder.TakeTouchedJobs(), page.revision, &nodes);
  read_->builder.jobs().Rest();
  return absl::OkStatus();
}

void CommittedView::Follow() {
  store::WatchRequest request;
  request.key = kKeyPrefix;
  request.end = store::PrefixEnd(kKeyPrefix);
  request.start_revision = revision_ + 1;
  watch_ = store_->StartWatch(std::move(request), [this](absl::StatusOr<store::WatchBatch> batch) {
    if (!batch.ok()) return TryAgain(batch.status());
    Take(*batch);
  });
}

void CommittedView::Take(const store::WatchBatch& batch) {
  for (const store::WatchEvent& event : batch.events) {
    absl::optional<absl::string_view> value;
    if (event.type == store::WatchEvent::Type::kPut) value = event.kv.value;
    const absl::Status applied = seen_->builder.Apply(event.kv.key, value);
    if (!applied.ok()) return TryAgain(applied);
    queues_changed_ = queues_changed_ || absl::StartsWith(event.kv.key, QueueKey(""));
    orders_changed_ = orders_changed_ || absl::StartsWith(event.kv.key, CapacityOrderKey(""));
    windows_changed_ =
        windows_changed_ || absl::StartsWith(event.kv.key, MaintenanceWindowPrefix());
  }
  const absl::Status resolved = seen_->builder.Resolve();
  if (!resolved.ok()) return TryAgain(resolved);
  Settle(batch.revision, seen_->builder.TakeTouchedJobs());
}

void CommittedView::TryAgain(const absl::Status& why) {
  if (absl::IsDataLoss(why)) {
    // That needs somebody to look at it.
    logger_->Error("the stored state cannot be read", {{"error", why}});
  } else {
    logger_->Warning("the view of committed state begins anew", {{"error", why}});
  }
  is_whole_ = false;
  reader_.reset();
  auto copies = std::exchange(copies_, {});
  for (auto& [revision, done] : copies) done(why);
  if (retry_timer_ != 0) return;
  retry_timer_ = strand_->RunAfter(kRetryAfter, [this] {
    retry_timer_ = 0;
    watch_.reset();
    Read();
  });
}

void CommittedView::Seen::Derive(const std::set<std::string>& jobs, int64_t revision,
                                 std::set<NodeId>* nodes) {
  for (const RemovedJob& removed : builder.TakeRemovedJobs()) {
    // It has left for the archive.
    const auto project = jobs_of.find(ProjectOf(removed.name));
    if (project == jobs_of.end()) continue;
    const auto entry = project->second.find(-removed.submit_sequence);
    if (entry != project->second.end() && IdentityUid(entry->second) == removed.uid) {
      project->second.erase(entry);
    }
    if (project->second.empty()) jobs_of.erase(project);
  }
  JobTable& table = builder.jobs();
  for (const std::string& uid : jobs) {
    for (const NodeId& id : usage.NodesOf(uid)) nodes->insert(id);
    const auto job = table.find(uid);
    const bool live = job != table.end() && job.glance().live;
    usage.Update(uid, live ? &job->second : nullptr);
    for (const NodeId& id : usage.NodesOf(uid)) nodes->insert(id);
    if (job == table.end()) continue;
    table.SetRevision(uid, revision);
    const JobGlance glance = job.glance();
    jobs_of[ProjectOf(glance.name)][-glance.submit_sequence] = job.identity();
  }
}

void CommittedView::Settle(int64_t revision, const std::set<std::string>& jobs) {
  revision_ = revision;
  std::set<NodeId> nodes = seen_->builder.TakeTouchedNodes();
  const bool fleet_changed = std::exchange(windows_changed_, false) || !nodes.empty();
  seen_->Derive(jobs, revision, &nodes);
  for (const NodeId& id : nodes) node_revisions_[id] = revision;
  const bool queues_changed = std::exchange(queues_changed_, false);
  const bool orders_changed = std::exchange(orders_changed_, false);
  const std::set<Listener*> listeners = listeners_;
  for (Listener* listener : listeners) {
    if (listeners_.count(listener) == 0) continue;
    if (queues_changed) listener->QueuesChanged();
    if (orders_changed) listener->OrdersChanged();
    if (fleet_changed) listener->FleetChanged();
    if (!jobs.empty()) listener->JobsChanged(jobs);
    if (!nodes.empty()) listener->NodesChanged(nodes);
  }
  while (!waiting_.empty() && waiting_.begin()->first <= revision_) {
    Strand::Task task = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    task();
  }
  seen_->builder.jobs().Rest();
  GiveCopies();
}

void CommittedView::Copy(int64_t revision, absl::AnyInvocable<void(absl::StatusOr<State>)> done) {
  copies_.emplace(revision, std::move(done));
  if (is_whole_) GiveCopies();
}

void CommittedView::GiveCopies() {
  while (!copies_.empty() && copies_.begin()->first <= revision_) {
    auto done = std::move(copies_.begin()->second);
    copies_.erase(copies_.begin());
    done(State{model().Copy(), seen_->builder.StaleChunks(), revision_});
  }
}

void CommittedView::WhenAtLeast(int64_t revision, Strand::Task task) {
  if (ready_ && revision_ >= revision) {
    if (seen_->builder.jobs().restless() > kMaxUnpacked) seen_->builder.jobs().Rest();
    task();
  } else {
    waiting_.emplace(revision, std::move(task));
  }
}

int64_t CommittedView::JobRevision(const std::string& uid) const {
  const int64_t revision = model().jobs.revision(uid);
  return revision == 0 ? first_revision_ : revision;
}

int64_t CommittedView::NodeRevision(const NodeId& id) const {
  auto it = node_revisions_.find(id);
  return it == node_revisions_.end() ? first_revision_ : it->second;
}

void CommittedView::CloseListeners() {
  const std::set<Listener*> listeners = listeners_;
  for (Listener* listener : listeners) listener->Closing();
}

const CommittedView::Submitted& CommittedView::JobsOf(const std::string& project) const {
  static const auto* const kNone = new Submitted();
  auto it = seen_->jobs_of.find(project);
  return it == seen_->jobs_of.end() ? *kNone : it->second;
}

}  // namespace capstan::scheduler
