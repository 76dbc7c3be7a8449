#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_RECORD_POOL_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_RECORD_POOL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "services/scheduler/core/job_entry.h"
#include "services/scheduler/core/shared_bytes.h"
#include "services/scheduler/core/spec_codec.h"

namespace capstan::scheduler {

// A JobSpecRecord, small. `identity`: what is the Job's own, with what is asked of it often as it
// is; `spec`: the JobSpec, shared by all that have the same. `ask`: one for all of a submitter that
// ask for the same room, at the same priority in the same Queue.
struct PackedSpec {
  SharedBytes identity;
  SharedBytes spec;
  SharedBytes ask;
};

// A JobStateRecord, small. `words`: reason and message, which many have in common; `rest`: all
// else.
struct PackedState {
  SharedBytes words;
  SharedBytes rest;
};

// What is to be known of a Job without making its records of it. Its strings are the Job's: good
// while that does not change.
struct JobGlance {
  absl::string_view uid;
  absl::string_view name;
  absl::string_view queue;  // of its spec
  absl::string_view reason;
  int64_t submit_sequence = 0;
  int32_t priority = 0;
  capstan::scheduler::v1::Job::State state = capstan::scheduler::v1::Job::STATE_UNSPECIFIED;
  bool is_element = false;
  bool is_array = false;
  bool has_singleton = false;
  bool has_estimate = false;
  bool makes_room = false;
  // Its state says where it may not be placed.
  bool is_confined = false;
  // It is to begin no generation, whatever it waits for now.
  bool is_held = false;
  bool live = false;

  bool final() const;
  // Waits for nothing but room.
  bool waits_for_room() const;
  // Of one that waits: room is made or kept for it.
  bool has_room_kept() const;
  // Order in which Jobs that wait are placed: priority, then submission.
  bool GoesBefore(const JobGlance& other) const;
  static JobGlance Of(const JobEntry& job);
};

// Uid and name of the Job.
absl::string_view IdentityUid(const SharedBytes& identity);
absl::string_view IdentityName(const SharedBytes& identity);

// Holds records of Jobs small: what is equal once, for all who share the pool, and specs beside
// those that they resemble. What is packed comes back as it was, unknown fields included. For one
// thread.
class RecordPool {
 public:
  // Uids and Queues of at most 64 KiB.
  static constexpr size_t kMaxUidBytes = UINT16_MAX;

  PackedSpec Pack(absl::string_view uid, const rec::JobSpecRecord& record);
  // The same, of a record that nobody reads afterwards.
  PackedSpec TakeApart(absl::string_view uid, rec::JobSpecRecord* record);
  PackedState Pack(rec::JobStateRecord record);
  PackedState TakeApart(rec::JobStateRecord* record);
  // Bytes of another pool that this one was forked from. O(bytes).
  SharedBytes Intern(const SharedBytes& other) { return pool_.Intern(other.bytes()); }
  // An empty pool that unpacks what was packed here until now, for any thread: what one learns from
  // here on the other does not know.
  std::shared_ptr<RecordPool> Fork() const;
  // A fork that has packed no spec itself unpacks from here on what `other` packed until now.
  void LearnFrom(const RecordPool& other) { codec_.LearnFrom(other.codec_); }
  void Unpack(const PackedSpec& packed, rec::JobSpecRecord* record) const;
  void Unpack(const PackedState& packed, rec::JobStateRecord* record) const;
  // Of one that has no gang that is live.
  static JobGlance Glance(const SharedBytes& identity, const PackedState& state);

 private:
  BytePool pool_;
  SpecCodec codec_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_RECORD_POOL_H_
