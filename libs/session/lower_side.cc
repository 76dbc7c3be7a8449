#include "libs/session/lower_side.h"

#include <algorithm>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace capstan::session {

using capstan::type::v1::DesiredTasks;
using capstan::type::v1::Observations;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;

namespace {

// More than the grant takes of a Task that is one of all in a message.
constexpr size_t kGrantBytes = 2048;

}  // namespace

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  const absl::Duration result =
      absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
  return std::max(result, absl::ZeroDuration());
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  duration = std::clamp(duration, absl::ZeroDuration(), absl::Hours(24 * 365 * 1000));
  google::protobuf::Duration result;
  result.set_seconds(absl::ToInt64Seconds(duration));
  result.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(duration - absl::Seconds(result.seconds()))));
  return result;
}

std::string SerializeDeterministic(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

absl::Duration RenewInterval(absl::Duration shortest_fence) {
  return std::clamp(shortest_fence / 6, absl::Milliseconds(50), absl::Seconds(3));
}

capstan::type::v1::Renewal RenewalBook::Send(BootTime now) {
  capstan::type::v1::Renewal renewal;
  renewal.set_sequence(next_sequence_);
  sent_[next_sequence_++] = now;
  if (sent_.size() > kMaxUnderWay) sent_.erase(sent_.begin());
  return renewal;
}

absl::optional<BootTime> RenewalBook::Answered(const capstan::type::v1::RenewalAnswer& answer) {
  const auto it = sent_.find(answer.sequence());
  if (it == sent_.end()) return absl::nullopt;
  const BootTime confirmed = it->second - FromProto(answer.confirmation_age());
  sent_.erase(it);
  return confirmed;
}

bool BreakerRefuses(size_t unnamed, size_t live) { return unnamed > 10 && unnamed * 5 > live; }

Observations* ReportBuilder::Room(size_t bytes, int64_t sequence) {
  if (messages_.empty() || bytes_ + bytes > kMaxChunkBytes) {
    messages_.emplace_back();
    bytes_ = 0;
  }
  bytes_ += bytes + 8;
  Observations* observations = messages_.back().mutable_observations();
  observations->set_journal_sequence(std::max(observations->journal_sequence(), sequence));
  return observations;
}

void ReportBuilder::Add(const capstan::type::v1::TaskObservation& task, int64_t sequence) {
  *Room(task.ByteSizeLong(), sequence)->add_tasks() = task;
}

void ReportBuilder::Add(const capstan::type::v1::NodeObservation& node, int64_t sequence) {
  *Room(node.ByteSizeLong(), sequence)->add_nodes() = node;
}

void ReportBuilder::AddGone(const capstan::type::v1::TaskKey& key, int64_t sequence) {
  *Room(key.ByteSizeLong(), sequence)->add_gone() = key;
}

std::vector<SessionUp> ReportBuilder::Build(bool sync_complete, int64_t sequence) {
  if (sync_complete) Room(0, sequence)->set_sync_complete(true);
  bytes_ = 0;
  return std::exchange(messages_, {});
}

DesiredTasks* DesiredBuilder::Room(size_t bytes) {
  if (messages_.empty() || bytes_ + bytes > kMaxChunkBytes) {
    DesiredTasks* desired = messages_.emplace_back().mutable_desired();
    *desired->mutable_token() = token_;
    desired->set_revision(revision_);
    desired->set_snapshot(snapshot_);
    bytes_ = 0;
  }
  bytes_ += bytes + 8;
  return messages_.back().mutable_desired();
}

void DesiredBuilder::Add(capstan::type::v1::DesiredTask task) {
  *Room(task.ByteSizeLong() + (task.has_grant() ? 0 : kGrantBytes))->add_tasks() = std::move(task);
}

void DesiredBuilder::AddForgotten(const capstan::type::v1::TaskKey& key) {
  *Room(key.ByteSizeLong())->add_forgotten() = key;
}

std::vector<SessionDown> DesiredBuilder::Build(bool sync_complete) {
  if (snapshot_) Room(0)->set_sync_complete(sync_complete);
  bytes_ = 0;
  return std::exchange(messages_, {});
}

}  // namespace capstan::session
