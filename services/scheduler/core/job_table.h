#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_TABLE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/job_entry.h"
#include "services/scheduler/core/record_pool.h"
#include "services/scheduler/core/waiting_order.h"

namespace capstan::scheduler {

// Jobs by uid and by name. Those that have a gang are at hand as they are; the others are packed
// (record_pool.h), and unpacked for who asks for them, until Rest. So a Job that waits takes some
// hundred bytes. For one thread, as its pool is.
//
// What it gives of a Job stays where it is, and says what is so, until Rest, or until the Job is
// put or erased.
class JobTable {
  struct Packed {
    SharedBytes spec;
    SharedBytes ask;
    // As of the last Rest.
    PackedState state;
    uint64_t revision : 62 = 0;
    // It is in `waiting_`.
    uint64_t waits : 1 = 0;
    // It is at hand.
    mutable uint64_t unpacked : 1 = 0;
  };
  struct ByUid {
    using is_transparent = void;
    static absl::string_view UidOf(const SharedBytes& identity) { return IdentityUid(identity); }
    static absl::string_view UidOf(absl::string_view uid) { return uid; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return UidOf(a) < UidOf(b);
    }
  };
  using Index = absl::btree_map<SharedBytes, Packed, ByUid>;  // by identity

 public:
  using value_type = std::pair<const std::string, JobEntry>;  // by uid

  // In order of uid. A packed Job is read anew by each iterator, and kept as long as it stands
  // there.
  class const_iterator {  // NOLINT(readability-identifier-naming)
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = JobTable::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type*;
    using reference = const value_type&;

    reference operator*() const { return *table_->Read(at_, &read_); }
    pointer operator->() const { return table_->Read(at_, &read_); }
    JobGlance glance() const { return table_->GlanceOf(at_); }
    const SharedBytes& identity() const { return at_->first; }
    // Of one that is not unpacked: as packed.
    const SharedBytes& ask() const { return at_->second.ask; }
    const SharedBytes& words() const { return at_->second.state.words; }
    bool unpacked() const { return at_->second.unpacked != 0; }
    const_iterator& operator++() {
      ++at_;
      read_.reset();
      return *this;
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.at_ == b.at_;
    }

   private:
    friend class JobTable;
    const_iterator(const JobTable* table, Index::const_iterator at) : table_(table), at_(at) {}

    const JobTable* table_;
    Index::const_iterator at_;
    mutable std::shared_ptr<value_type> read_;
  };

  // With a pool that others hold Jobs in too, or one of its own.
  explicit JobTable(std::shared_ptr<RecordPool> pool = nullptr);
  JobTable(JobTable&&) = default;
  JobTable& operator=(JobTable&&) = default;
  // As it is, in the same pool. O(Jobs), but what is packed is shared.
  JobTable Copy() const;

  size_t size() const { return index_.size(); }
  bool empty() const { return index_.empty(); }
  size_t count(absl::string_view uid) const { return index_.count(uid); }
  const_iterator begin() const { return {this, index_.begin()}; }
  const_iterator end() const { return {this, index_.end()}; }

  // Where it stands, or the end: for who reads it once.
  const_iterator find(absl::string_view uid) const { return {this, index_.find(uid)}; }

  // Null if there is none.
  JobEntry* Find(absl::string_view uid) { return Unpacked(uid); }
  const JobEntry* Find(absl::string_view uid) const { return Unpacked(uid); }
  // It must be there.
  const JobEntry& at(absl::string_view uid) const { return *Unpacked(uid); }
  // The one that was put last of those that had the name.
  JobEntry* FindByName(absl::string_view name);
  const JobEntry* FindByName(absl::string_view name) const;
  absl::optional<JobGlance> Glance(absl::string_view uid) const;
  // At all Jobs, in order of uid. It may not put or erase any.
  void ForEachGlance(absl::FunctionRef<void(const JobGlance&)> look) const;

  // Of what waits for room, each as of the last Rest if it was taken without a gang:
  // how many are placed before the Job, where `with_gang` is what the next has found: O(those);
  size_t CountAhead(const JobGlance& job, const std::vector<JobGlance>& with_gang) const;
  // those that have a gang, which may come to wait, or no more, at any time: good until any Job
  // changes. O(Jobs with a gang);
  std::vector<JobGlance> WaitingWithGang() const;
  // all in the order in which they are placed, those first that room is made or kept for, until
  // `look` says no;
  void ForEachWaiting(absl::FunctionRef<bool(absl::string_view uid)> look) const {
    ForEachWaiting(WaitingWithGang(), look);
  }
  void ForEachWaiting(std::vector<JobGlance> with_gang,
                      absl::FunctionRef<bool(absl::string_view uid)> look) const;
  // and how many there are. O(Jobs with a gang) beside what is asked for.
  size_t CountWaiting() const;
  // The Jobs with a gang that is live, in order of uid. It may not put or erase any.
  void ForEachLive(absl::FunctionRef<void(absl::string_view uid, const JobEntry& job)> look) const;

  // Takes it under the uid in its spec, in the place of one that is there. Of its spec what is
  // changed afterwards is lost.
  JobEntry& Add(JobEntry job);
  // Has the table know it by its spec as that is now: the Job is one that the table gave, and its
  // uid and name are what they were.
  void Repack(JobEntry* job);
  // As Add, as it is packed in this table's pool.
  void Put(const PackedSpec& spec, const PackedState& state, absl::optional<Gang> gang);
  // It must be there. As it is packed, or, if it is unpacked, what Rest would make of it.
  PackedSpec SpecOf(absl::string_view uid) const;
  PackedState StateOf(absl::string_view uid) const;
  void Erase(absl::string_view uid);

  // Takes the Job of another table, in whose pool's fork this one's are, as it is packed there or
  // with its gang.
  void Adopt(const JobTable& other, absl::string_view uid);

  // A number that is kept with the Job; 0 of one that is new or not there.
  void SetRevision(absl::string_view uid, int64_t revision);
  int64_t revision(absl::string_view uid) const;

  // Packs all without a gang. O(those asked for since the last time).
  void Rest();
  // Those asked for since then.
  size_t restless() const { return restless_.size(); }

  const std::shared_ptr<RecordPool>& pool() const { return pool_; }

 private:
  struct NameHash {
    using is_transparent = void;
    static absl::string_view NameOf(const SharedBytes& identity) { return IdentityName(identity); }
    static absl::string_view NameOf(absl::string_view name) { return name; }
    template <typename T>
    size_t operator()(const T& of) const {
      return absl::Hash<absl::string_view>()(NameOf(of));
    }
  };
  struct NameEqual {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return NameHash::NameOf(a) == NameHash::NameOf(b);
    }
  };

  JobEntry* Unpacked(absl::string_view uid) const;
  void Unpack(Index::const_iterator at, JobEntry* job) const;
  JobGlance GlanceOf(Index::const_iterator at) const;
  const value_type* Read(Index::const_iterator at, std::shared_ptr<value_type>* read) const;
  // Has `waiting_` or `kept_` hold what waits as of what is packed, or not.
  void Order(Index::iterator at, bool may_wait);
  // Puts it into the indexes, in the place of another.
  Index::iterator Place(const PackedSpec& spec);
  void ForgetName(const SharedBytes& identity);

  std::shared_ptr<RecordPool> pool_;
  Index index_;
  absl::flat_hash_set<SharedBytes, NameHash, NameEqual> names_;
  // Those without a gang that wait for room: those that room is made or kept for, and the others.
  WaitingOrder kept_;
  WaitingOrder waiting_;
  // Those that have a gang, and those asked for. By uid.
  mutable std::map<std::string, JobEntry, std::less<>> unpacked_;
  mutable std::vector<std::string> restless_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_TABLE_H_
