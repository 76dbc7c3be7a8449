#include "services/executor/core/task_book.h"

#include <utility>

#include "libs/session/lower_side.h"

namespace capstan::executor {

const TaskEntry* TaskBook::Find(const session::TaskId& id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second;
}

const std::set<session::TaskId>& TaskBook::OnNode(const std::string& node) const {
  static const std::set<session::TaskId>* const kNone = new std::set<session::TaskId>();
  const auto it = by_node_.find(node);
  return it == by_node_.end() ? *kNone : it->second;
}

absl::Duration TaskBook::ShortestFence() const {
  return fences_.empty() ? absl::InfiniteDuration() : *fences_.begin();
}

void TaskBook::Index(const session::TaskId& id, const TaskEntry& entry) {
  by_node_[entry.node()].insert(id);
  if (entry.ended()) return;
  ++live_;
  if (entry.desired.has_value()) {
    fences_.insert(session::FromProto(entry.desired->launch().fence_after()));
  }
}

void TaskBook::Unindex(const session::TaskId& id, const TaskEntry& entry) {
  const auto node = by_node_.find(entry.node());
  node->second.erase(id);
  if (node->second.empty()) by_node_.erase(node);
  if (entry.ended()) return;
  --live_;
  if (entry.desired.has_value()) {
    fences_.erase(fences_.find(session::FromProto(entry.desired->launch().fence_after())));
  }
}

void TaskBook::Set(const session::TaskId& id, TaskEntry entry) {
  const auto it = entries_.find(id);
  if (it != entries_.end()) {
    Unindex(id, it->second);
    it->second = std::move(entry);
    Index(id, it->second);
    return;
  }
  ++tasks_of_job_[id.job_uid];
  Index(id, entry);
  entries_.emplace(id, std::move(entry));
}

bool TaskBook::Erase(const session::TaskId& id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return false;
  Unindex(id, it->second);
  entries_.erase(it);
  const auto job = tasks_of_job_.find(id.job_uid);
  if (--job->second > 0) return false;
  tasks_of_job_.erase(job);
  return true;
}

int64_t TaskBook::Uid(const std::string& job_uid) const {
  const auto it = uids_.find(job_uid);
  return it == uids_.end() ? 0 : it->second;
}

int64_t TaskBook::PickUid(int64_t last) const {
  if (first_uid_ <= 0) return 0;
  const int64_t size = last_uid_ - first_uid_ + 1;
  const int64_t start = last < first_uid_ || last >= last_uid_ ? first_uid_ : last + 1;
  // Visits at most one more than are taken.
  for (int64_t i = 0; i < size; ++i) {
    const int64_t uid = first_uid_ + (start - first_uid_ + i) % size;
    if (taken_uids_.count(uid) == 0) return uid;
  }
  return 0;
}

bool TaskBook::TakeUid(const std::string& job_uid, int64_t uid) {
  if (!taken_uids_.insert(uid).second) return false;
  uids_[job_uid] = uid;
  return true;
}

void TaskBook::ReleaseUid(const std::string& job_uid) {
  const auto it = uids_.find(job_uid);
  if (it == uids_.end()) return;
  taken_uids_.erase(it->second);
  uids_.erase(it);
}

}  // namespace capstan::executor
