#ifndef CAPSTAN_SERVICES_EXECUTOR_CORE_TASK_BOOK_H_
#define CAPSTAN_SERVICES_EXECUTOR_CORE_TASK_BOOK_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/session/task_id.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/executor/core/records.pb.h"

namespace capstan::executor {

// What the executor keeps of one Task. It stays until the scheduler has forgotten the Task and the
// Node has said that nothing of it is left.
struct TaskEntry {
  // Unset if only the Node knows the Task (then `forgotten`, once the scheduler's snapshot is
  // whole).
  absl::optional<capstan::type::v1::DesiredTask> desired;
  record::v1::Observed observed;

  const std::string& node() const {
    return desired.has_value() ? desired->node() : observed.observation().node();
  }
  bool ended() const {
    return observed.observation().state() == capstan::type::v1::TaskObservation::STATE_ENDED;
  }
  bool reported() const { return observed.has_observation(); }
};

// All Tasks of the Cluster by key, Node and Job, and the Unix uids of the Jobs.
class TaskBook {
 public:
  // Uids come from [first_uid, last_uid]; none are given if first_uid is 0.
  TaskBook(int64_t first_uid, int64_t last_uid) : first_uid_(first_uid), last_uid_(last_uid) {}

  const std::map<session::TaskId, TaskEntry>& entries() const { return entries_; }
  const TaskEntry* Find(const session::TaskId& id) const;
  // Tasks of a Node, in order.
  const std::set<session::TaskId>& OnNode(const std::string& node) const;
  // Tasks that have not been reported ended.
  size_t live() const { return live_; }
  // Shortest fence_after of any Task that has not ended; infinite if there is none.
  absl::Duration ShortestFence() const;

  // Puts in a whole new entry; its node and launch are indexed.
  void Set(const session::TaskId& id, TaskEntry entry);
  // Removes the entry. True if it was the Job's last: then its uid is free again.
  bool Erase(const session::TaskId& id);

  // Uid of a Job; 0 if it has none.
  int64_t Uid(const std::string& job_uid) const;
  // A free uid, looking upward from the one after `last`, then from the start; 0 if all are taken.
  int64_t PickUid(int64_t last) const;
  // Takes a uid for a Job that has none. False if another Job holds it.
  bool TakeUid(const std::string& job_uid, int64_t uid);
  void ReleaseUid(const std::string& job_uid);
  bool gives_uids() const { return first_uid_ > 0; }
  int64_t first_uid() const { return first_uid_; }
  int64_t last_uid() const { return last_uid_; }
  const std::map<std::string, int64_t>& uids() const { return uids_; }

 private:
  void Index(const session::TaskId& id, const TaskEntry& entry);
  void Unindex(const session::TaskId& id, const TaskEntry& entry);

  int64_t first_uid_;
  int64_t last_uid_;
  std::map<session::TaskId, TaskEntry> entries_;
  std::map<std::string, std::set<session::TaskId>> by_node_;
  std::map<std::string, size_t> tasks_of_job_;
  std::multiset<absl::Duration> fences_;
  size_t live_ = 0;
  std::map<std::string, int64_t> uids_;
  std::set<int64_t> taken_uids_;
};

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_CORE_TASK_BOOK_H_
