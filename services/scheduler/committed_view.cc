#include "services/scheduler/committed_view.h"

#include <utility>

#include "absl/strings/match.h"
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
      builder_(std::make_unique<ModelBuilder>(pool_)) {}

CommittedView::~CommittedView() {
  if (retry_timer_ != 0) strand_->Cancel(retry_timer_);
}

void CommittedView::Start() { Read(); }

void CommittedView::Read() {
  read_ = std::make_unique<ModelBuilder>(pool_);
  reader_ = std::make_unique<RecordReader>(store_, /*revision=*/0);
  reader_->Next([this](absl::StatusOr<RecordReader::Page> page) { TakePage(std::move(page)); });
}

void CommittedView::TakePage(absl::StatusOr<RecordReader::Page> page) {
  if (!page.ok()) return TryAgain(page.status());
  for (const store::KeyValue& kv : page->kvs) {
    const absl::Status applied = read_->Apply(kv.key, absl::string_view(kv.value));
    if (!applied.ok()) return TryAgain(applied);
  }
  if (!page->last) {
    return reader_->Next(
        [this](absl::StatusOr<RecordReader::Page> next) { TakePage(std::move(next)); });
  }
  // Everything may have changed since the last time.
  usage_ = NodeUsage();
  jobs_of_.clear();
  node_revisions_.clear();
  builder_ = std::move(read_);
  queues_changed_ = orders_changed_ = true;
  first_revision_ = page->revision;
  ready_ = true;
  is_whole_ = true;
  Settle(page->revision);
  Follow();
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
    const absl::Status applied = builder_->Apply(event.kv.key, value);
    if (!applied.ok()) return TryAgain(applied);
    queues_changed_ = queues_changed_ || absl::StartsWith(event.kv.key, QueueKey(""));
    orders_changed_ = orders_changed_ || absl::StartsWith(event.kv.key, CapacityOrderKey(""));
  }
  Settle(batch.revision);
}

void CommittedView::TryAgain(const absl::Status& why) {
  logger_->Warning("the view of committed state begins anew", {{"error", why}});
  is_whole_ = false;
  auto copies = std::exchange(copies_, {});
  for (auto& [revision, done] : copies) done(why);
  if (retry_timer_ != 0) return;
  retry_timer_ = strand_->RunAfter(kRetryAfter, [this] {
    retry_timer_ = 0;
    watch_.reset();
    Read();
  });
}

void CommittedView::Settle(int64_t revision) {
  const absl::Status resolved = builder_->Resolve();
  if (!resolved.ok()) return TryAgain(resolved);
  revision_ = revision;
  const std::set<std::string> jobs = builder_->TakeTouchedJobs();
  std::set<NodeId> nodes = builder_->TakeTouchedNodes();
  for (const RemovedJob& removed : builder_->TakeRemovedJobs()) {
    // It has left for the archive.
    const auto project = jobs_of_.find(ProjectOf(removed.name));
    if (project == jobs_of_.end()) continue;
    const auto entry = project->second.find(-removed.submit_sequence);
    if (entry != project->second.end() && IdentityUid(entry->second) == removed.uid) {
      project->second.erase(entry);
    }
    if (project->second.empty()) jobs_of_.erase(project);
  }
  JobTable& table = builder_->jobs();
  for (const std::string& uid : jobs) {
    for (const NodeId& id : usage_.NodesOf(uid)) nodes.insert(id);
    const auto job = table.find(uid);
    const bool live = job != table.end() && job.glance().live;
    usage_.Update(uid, live ? &job->second : nullptr);
    for (const NodeId& id : usage_.NodesOf(uid)) nodes.insert(id);
    if (job == table.end()) continue;
    table.SetRevision(uid, revision);
    const JobGlance glance = job.glance();
    jobs_of_[ProjectOf(glance.name)][-glance.submit_sequence] = job.identity();
  }
  for (const NodeId& id : nodes) node_revisions_[id] = revision;
  const bool queues_changed = std::exchange(queues_changed_, false);
  const bool orders_changed = std::exchange(orders_changed_, false);
  const std::set<Listener*> listeners = listeners_;
  for (Listener* listener : listeners) {
    if (listeners_.count(listener) == 0) continue;
    if (queues_changed) listener->QueuesChanged();
    if (orders_changed) listener->OrdersChanged();
    if (!jobs.empty()) listener->JobsChanged(jobs);
    if (!nodes.empty()) listener->NodesChanged(nodes);
  }
  while (!waiting_.empty() && waiting_.begin()->first <= revision_) {
    Strand::Task task = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    task();
  }
  builder_->jobs().Rest();
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
    done(State{model().Copy(), builder_->StaleChunks(), revision_});
  }
}

void CommittedView::WhenAtLeast(int64_t revision, Strand::Task task) {
  if (ready_ && revision_ >= revision) {
    if (builder_->jobs().restless() > kMaxUnpacked) builder_->jobs().Rest();
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
  auto it = jobs_of_.find(project);
  return it == jobs_of_.end() ? *kNone : it->second;
}

}  // namespace capstan::scheduler
