#include "services/scheduler/core/record_pool.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/session/lower_side.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;

namespace {

// What `identity` begins with; uid, name, Queue and what is left of the record follow.
struct Header {
  int64_t submit_sequence;
  int32_t priority;
  uint32_t name_size;
  uint32_t queue_size;
  uint16_t uid_size;
  uint8_t flags;
};
constexpr uint8_t kElement = 1;
constexpr uint8_t kSingleton = 2;
constexpr uint8_t kSpec = 4;
// The record does not name the uid of its key.
constexpr uint8_t kOtherUid = 8;

// What `rest` begins with.
struct StateHeader {
  uint8_t state;
  uint8_t flags;
};
constexpr uint8_t kEstimate = 1;
constexpr uint8_t kMakesRoom = 2;
constexpr uint8_t kArray = 4;
constexpr uint8_t kConfined = 8;
constexpr uint8_t kIsHeld = 16;

bool IsConfined(const rec::JobStateRecord& state) {
  return !state.data_cluster().empty() || state.avoided_nodes_size() > 0;
}

// Takes out of the spec what has nothing to do with where and when it is placed.
void KeepAsk(capstan::scheduler::v1::JobSpec* spec) {
  for (auto& group : *spec->mutable_task_groups()) {
    group.clear_argv();
    group.clear_env();
  }
  spec->clear_retry();
  spec->clear_fence_after();
  spec->clear_datasets();
  spec->clear_bundle();
  spec->clear_output();
  spec->clear_service_account();
  spec->clear_labels();
  spec->clear_checkpoint_period();
  spec->clear_grow_after();
  spec->clear_after();
  spec->clear_array();
  spec->clear_singleton();
}

template <typename T>
T HeaderOf(absl::string_view bytes) {
  T header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

template <typename T>
std::string BytesOf(const T& header) {
  std::string bytes(sizeof(header), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

}  // namespace

bool JobGlance::final() const {
  return state == Job::STATE_SUCCEEDED || state == Job::STATE_FAILED ||
         state == Job::STATE_CANCELLED;
}

bool JobGlance::waits_for_room() const {
  return state == Job::STATE_QUEUED && reason != kAwaitsJobs && reason != kAwaitsTurn &&
         reason != kHeld && reason != "AWAITING_DATA" && reason != "BACK_OFF";
}

bool JobGlance::has_room_kept() const {
  return makes_room || has_estimate || reason == kOrdered || reason == kReturning;
}

bool JobGlance::GoesBefore(const JobGlance& other) const {
  return priority != other.priority ? priority > other.priority
                                    : submit_sequence < other.submit_sequence;
}

JobGlance JobGlance::Of(const JobEntry& job) {
  JobGlance glance;
  const auto& spec = job.spec.spec();
  glance.uid = job.spec.uid();
  glance.name = job.spec.name();
  glance.queue = spec.queue();
  glance.reason = job.state.reason();
  glance.submit_sequence = job.spec.submit_sequence();
  glance.priority = spec.priority();
  glance.state = job.state.state();
  glance.is_element = job.spec.has_element();
  glance.is_array = job.state.has_elements();
  glance.has_singleton = !spec.singleton().empty();
  glance.has_estimate = job.state.has_estimated_start_time();
  glance.makes_room = job.state.making_room_size() > 0;
  glance.is_confined = IsConfined(job.state);
  glance.is_held = job.state.hold();
  glance.live = job.live();
  return glance;
}

absl::string_view IdentityUid(const SharedBytes& identity) {
  const absl::string_view bytes = identity.bytes();
  return bytes.substr(sizeof(Header), HeaderOf<Header>(bytes).uid_size);
}

absl::string_view IdentityName(const SharedBytes& identity) {
  const absl::string_view bytes = identity.bytes();
  const Header header = HeaderOf<Header>(bytes);
  return bytes.substr(sizeof(Header) + header.uid_size, header.name_size);
}

std::shared_ptr<RecordPool> RecordPool::Fork() const {
  auto fork = std::make_shared<RecordPool>();
  fork->LearnFrom(*this);
  return fork;
}

PackedSpec RecordPool::Pack(absl::string_view uid, const rec::JobSpecRecord& record) {
  rec::JobSpecRecord copy = record;
  return TakeApart(uid, &copy);
}

PackedSpec RecordPool::TakeApart(absl::string_view uid, rec::JobSpecRecord* record) {
  const auto& spec = record->spec();
  Header header;
  // Padding too, or equal ones would differ.
  std::memset(&header, 0, sizeof(header));
  header.submit_sequence = record->submit_sequence();
  header.priority = spec.priority();
  header.uid_size = static_cast<uint16_t>(uid.size());
  header.name_size = static_cast<uint32_t>(record->name().size());
  header.queue_size = static_cast<uint32_t>(spec.queue().size());
  header.flags = static_cast<uint8_t>(
      (record->has_element() ? kElement : 0) | (spec.singleton().empty() ? 0 : kSingleton) |
      (record->has_spec() ? kSpec : 0) | (record->uid() == uid ? 0 : kOtherUid));
  std::string identity = BytesOf(header);
  identity.append(uid.data(), uid.size());
  identity.append(record->name());
  identity.append(spec.queue());
  PackedSpec packed;
  if (record->has_spec()) {
    packed.spec = pool_.Intern(codec_.Encode(session::SerializeDeterministic(spec)));
    KeepAsk(record->mutable_spec());
    packed.ask = pool_.Intern(absl::StrCat(record->submitter().size(), "|", record->submitter(),
                                           session::SerializeDeterministic(spec)));
    record->clear_spec();
  }
  record->clear_name();
  record->clear_submit_sequence();
  if (record->uid() == uid) record->clear_uid();
  identity.append(session::SerializeDeterministic(*record));
  packed.identity = pool_.Intern(identity);
  return packed;
}

void RecordPool::Unpack(const PackedSpec& packed, rec::JobSpecRecord* record) const {
  absl::string_view rest = packed.identity.bytes();
  const Header header = HeaderOf<Header>(rest);
  rest.remove_prefix(sizeof(Header) + header.uid_size + header.name_size + header.queue_size);
  record->ParseFromArray(rest.data(), static_cast<int>(rest.size()));
  const absl::string_view name = IdentityName(packed.identity);
  record->set_name(name.data(), name.size());
  record->set_submit_sequence(header.submit_sequence);
  if ((header.flags & kOtherUid) == 0) {
    const absl::string_view uid = IdentityUid(packed.identity);
    record->set_uid(uid.data(), uid.size());
  }
  if ((header.flags & kSpec) != 0) {
    record->mutable_spec()->ParseFromString(codec_.Decode(packed.spec.bytes()));
  }
}

PackedState RecordPool::Pack(rec::JobStateRecord record) { return TakeApart(&record); }

PackedState RecordPool::TakeApart(rec::JobStateRecord* record) {
  StateHeader header;
  header.state = static_cast<uint8_t>(record->state());
  header.flags = static_cast<uint8_t>(
      (record->has_estimated_start_time() ? kEstimate : 0) |
      (record->making_room_size() > 0 ? kMakesRoom : 0) | (record->has_elements() ? kArray : 0) |
      (IsConfined(*record) ? kConfined : 0) | (record->hold() ? kIsHeld : 0));
  // A reason has no NUL in it.
  std::string words = record->reason();
  words.push_back('\0');
  words.append(record->message());
  record->clear_reason();
  record->clear_message();
  PackedState packed;
  packed.words = pool_.Intern(words);
  packed.rest = pool_.Intern(BytesOf(header) + session::SerializeDeterministic(*record));
  return packed;
}

void RecordPool::Unpack(const PackedState& packed, rec::JobStateRecord* record) const {
  absl::string_view rest = packed.rest.bytes();
  rest.remove_prefix(sizeof(StateHeader));
  record->ParseFromArray(rest.data(), static_cast<int>(rest.size()));
  const absl::string_view words = packed.words.bytes();
  const size_t end = words.find('\0');
  record->set_reason(words.data(), end);
  record->set_message(words.data() + end + 1, words.size() - end - 1);
}

JobGlance RecordPool::Glance(const SharedBytes& identity, const PackedState& state) {
  const absl::string_view bytes = identity.bytes();
  const Header header = HeaderOf<Header>(bytes);
  const StateHeader of_state = HeaderOf<StateHeader>(state.rest.bytes());
  const absl::string_view words = state.words.bytes();
  JobGlance glance;
  size_t at = sizeof(Header);
  const auto take = [&bytes, &at](size_t size) {
    at += size;
    return bytes.substr(at - size, size);
  };
  glance.uid = take(header.uid_size);
  glance.name = take(header.name_size);
  glance.queue = take(header.queue_size);
  glance.reason = words.substr(0, words.find('\0'));
  glance.submit_sequence = header.submit_sequence;
  glance.priority = header.priority;
  glance.state = static_cast<Job::State>(of_state.state);
  glance.is_element = (header.flags & kElement) != 0;
  glance.is_array = (of_state.flags & kArray) != 0;
  glance.has_singleton = (header.flags & kSingleton) != 0;
  glance.has_estimate = (of_state.flags & kEstimate) != 0;
  glance.makes_room = (of_state.flags & kMakesRoom) != 0;
  glance.is_confined = (of_state.flags & kConfined) != 0;
  glance.is_held = (of_state.flags & kIsHeld) != 0;
  return glance;
}

}  // namespace capstan::scheduler
