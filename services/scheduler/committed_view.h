#ifndef CAPSTAN_SERVICES_SCHEDULER_COMMITTED_VIEW_H_
#define CAPSTAN_SERVICES_SCHEDULER_COMMITTED_VIEW_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/log/log.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/record_pool.h"
#include "services/scheduler/core/shared_bytes.h"
#include "services/scheduler/core/usage.h"
#include "services/scheduler/record_reader.h"

namespace capstan::scheduler {

// What Get, List, Watch and Explain answer from: the state that the store has committed, followed
// by a watch, on leaders and followers alike. Never the core's state, which runs ahead of the
// store. On the engine's strand only.
class CommittedView {
 public:
  // Told after each change, on the strand, of what has changed since the last time.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void JobsChanged(const std::set<std::string>& uids) = 0;
    virtual void NodesChanged(const std::set<NodeId>& nodes) = 0;
    // Any Node itself, not only what runs there, or any maintenance window.
    virtual void FleetChanged() {}
    // Any of the Queues, in what people set.
    virtual void QueuesChanged() {}
    // Any of the orders of capacity.
    virtual void OrdersChanged() {}
    // The service stops: end what is open.
    virtual void Closing() = 0;
  };

  // `store` must call back on `strand`; both and `logger` outlive the view.
  CommittedView(store::Store* store, Strand* strand, const log::Logger* logger);
  ~CommittedView();

  // Reads and follows; what goes wrong is tried again for ever.
  void Start();

  // Runs `task` once the view has seen `revision` (and anything at all), at once if it has. What
  // the task finds of Jobs is good until it ends.
  void WhenAtLeast(int64_t revision, Strand::Task task);

  // What a leader begins with.
  struct State {
    Model model;
    std::vector<store::Delete> stale;  // see ModelBuilder::StaleChunks
    int64_t revision = 0;
  };
  // Gives a copy of all that it has seen once that is up to `revision`, or why it begins anew
  // before. O(Jobs) on the strand, with what they are packed in shared. Not from within.
  void Copy(int64_t revision, absl::AnyInvocable<void(absl::StatusOr<State>)> done);

  // Whether it has seen anything yet.
  bool ready() const { return ready_; }
  int64_t revision() const { return revision_; }
  const Model& model() const { return seen_->builder.model(); }
  const NodeUsage& usage() const { return seen_->usage; }
  // Revision of the last change that concerns the Job, or the Node (its Tasks included); that of
  // the first read if it has not changed since.
  int64_t JobRevision(const std::string& uid) const;
  int64_t NodeRevision(const NodeId& id) const;
  // Changes at or before this revision are not known one by one.
  int64_t first_revision() const { return first_revision_; }
  // A project's Jobs (IdentityUid) by the negated order of submission: newest first.
  using Submitted = absl::btree_map<int64_t, SharedBytes>;
  const Submitted& JobsOf(const std::string& project) const;

  void AddListener(Listener* listener) { listeners_.insert(listener); }
  void RemoveListener(Listener* listener) { listeners_.erase(listener); }
  // Tells every listener that the service stops.
  void CloseListeners();

 private:
  // A state, with what is derived from it.
  struct Seen {
    explicit Seen(const std::shared_ptr<RecordPool>& pool) : builder(pool) {}

    // Of its Jobs that have changed; adds the Nodes that have with them.
    void Derive(const std::set<std::string>& jobs, int64_t revision, std::set<NodeId>* nodes);

    // Revisions of Jobs are with the Jobs.
    ModelBuilder builder;
    NodeUsage usage;
    std::map<std::string, Submitted> jobs_of;
  };

  void Read();
  void TakePage(absl::StatusOr<RecordReader::Page> page);
  // Of a page of a state that is read: what can be done of it before the others come.
  absl::Status AddPage(const RecordReader::Page& page);
  void GiveCopies();
  void Follow();
  void Take(const store::WatchBatch& batch);
  void TryAgain(const absl::Status& why);
  // Brings what is derived up to what is seen, of which these Jobs have changed, and tells of it.
  void Settle(int64_t revision, const std::set<std::string>& jobs);

  store::Store* const store_;
  Strand* const strand_;
  const log::Logger* const logger_;
  const std::shared_ptr<RecordPool> pool_;
  std::unique_ptr<Seen> seen_;
  // What is read anew, until all of it is.
  std::unique_ptr<RecordReader> reader_;
  std::unique_ptr<Seen> read_;
  bool ready_ = false;
  // What is seen is as of `revision_`, not somewhere between that and what could not be taken.
  bool is_whole_ = false;
  int64_t revision_ = 0;
  int64_t first_revision_ = 0;
  std::map<NodeId, int64_t> node_revisions_;
  std::set<Listener*> listeners_;
  std::multimap<int64_t, Strand::Task> waiting_;
  std::multimap<int64_t, absl::AnyInvocable<void(absl::StatusOr<State>)>> copies_;
  std::unique_ptr<store::Watch> watch_;
  // Since listeners were told.
  bool queues_changed_ = false;
  bool orders_changed_ = false;
  bool windows_changed_ = false;
  Strand::TimerId retry_timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_COMMITTED_VIEW_H_
