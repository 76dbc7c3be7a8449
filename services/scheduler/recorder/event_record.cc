#include "services/scheduler/recorder/event_record.h"

#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/time/clock.h"

namespace capstan::scheduler {
namespace {

using recording::EventRecord;

class Recorder {
 public:
  Recorder(const Redaction& redaction, EventRecord* out) : redaction_(redaction), out_(*out) {}

  void operator()(const LeadershipGained& event) {
    *out_.mutable_leadership_gained()->mutable_token() = event.token;
  }
  void operator()(const CreateJob& event) {
    auto& record = *out_.mutable_create_job();
    record.set_call(event.call);
    record.set_project(event.project);
    record.set_job_id(event.job_id);
    record.set_uid(event.uid);
    record.set_submitter(event.submitter);
    record.set_request_id(event.request_id);
    record.set_body_hash(redaction_.Hash(event.body_hash));
    record.set_validate_only(event.validate_only);
    record.set_traceparent(event.traceparent);
    *record.mutable_spec() = event.spec;
    Redaction::Redact(record.mutable_spec());
    record.set_hold(event.hold);
  }
  void operator()(const UpdateJob& event) {
    auto& record = *out_.mutable_update_job();
    record.set_call(event.call);
    record.set_name(event.name);
    record.set_etag(event.etag);
    record.set_validate_only(event.validate_only);
    *record.mutable_change() = event.change;
  }
  void operator()(const CancelJob& event) {
    auto& record = *out_.mutable_cancel_job();
    record.set_call(event.call);
    record.set_name(event.name);
    record.set_etag(event.etag);
  }
  void operator()(const CreateQueue& event) {
    auto& record = *out_.mutable_create_queue();
    record.set_call(event.call);
    record.set_queue_id(event.queue_id);
    record.set_uid(event.uid);
    record.set_request_id(event.request_id);
    record.set_body_hash(redaction_.Hash(event.body_hash));
    *record.mutable_queue() = event.queue;
  }
  void operator()(const UpdateQueue& event) {
    auto& record = *out_.mutable_update_queue();
    record.set_call(event.call);
    record.set_queue_id(event.queue_id);
    record.set_etag(event.etag);
    *record.mutable_update_mask() = event.update_mask;
    *record.mutable_queue() = event.queue;
  }
  void operator()(const CordonNode& event) {
    auto& record = *out_.mutable_cordon_node();
    record.set_call(event.call);
    record.set_cluster(event.cluster);
    record.set_node(event.node);
    record.set_owner(event.owner);
    record.set_reason(event.reason);
  }
  void operator()(const UncordonNode& event) {
    auto& record = *out_.mutable_uncordon_node();
    record.set_call(event.call);
    record.set_cluster(event.cluster);
    record.set_node(event.node);
    record.set_owner(event.owner);
  }
  void operator()(const CreateMaintenanceWindow& event) {
    auto& record = *out_.mutable_create_maintenance_window();
    record.set_call(event.call);
    record.set_cluster(event.cluster);
    record.set_window_id(event.window_id);
    record.set_uid(event.uid);
    record.set_creator(event.creator);
    record.set_request_id(event.request_id);
    record.set_body_hash(redaction_.Hash(event.body_hash));
    *record.mutable_window() = event.window;
  }
  void operator()(const DeleteMaintenanceWindow& event) {
    auto& record = *out_.mutable_delete_maintenance_window();
    record.set_call(event.call);
    record.set_cluster(event.cluster);
    record.set_window_id(event.window_id);
    record.set_etag(event.etag);
  }
  void operator()(const ConfirmSilence& event) {
    out_.mutable_confirm_silence()->set_call(event.call);
  }
  void operator()(const CreateCapacityOrder& event) {
    auto& record = *out_.mutable_create_capacity_order();
    record.set_call(event.call);
    record.set_order_id(event.order_id);
    record.set_creator(event.creator);
    record.set_request_id(event.request_id);
    record.set_body_hash(redaction_.Hash(event.body_hash));
    *record.mutable_order() = event.order;
  }
  void operator()(const DeleteCapacityOrder& event) {
    auto& record = *out_.mutable_delete_capacity_order();
    record.set_call(event.call);
    record.set_order_id(event.order_id);
  }
  void operator()(const HelloReceived& event) {
    auto& record = *out_.mutable_hello_received();
    record.set_session(event.session);
    *record.mutable_hello() = event.hello;
  }
  void operator()(const RenewalReceived& event) {
    auto& record = *out_.mutable_renewal_received();
    record.set_session(event.session);
    record.set_sequence(event.sequence);
    record.set_leader_until_ns(event.leader_until.ToNanoseconds());
  }
  void operator()(const ObservationsReceived& event) {
    auto& record = *out_.mutable_observations_received();
    record.set_session(event.session);
    *record.mutable_observations() = event.observations;
  }
  void operator()(const SessionClosed& event) {
    out_.mutable_session_closed()->set_session(event.session);
  }
  void operator()(const DataProgressed& event) {
    auto& record = *out_.mutable_data_progressed();
    record.set_job_uid(event.job_uid);
    record.set_dataset(event.dataset);
    record.set_data_load(event.data_load);
    record.set_loaded_bytes(event.loaded_bytes);
    record.set_total_bytes(event.total_bytes);
    record.set_bytes_per_second(event.bytes_per_second);
    record.set_eta_ns(ToNanoseconds(event.eta));
  }
  void operator()(const DataReady& event) {
    auto& record = *out_.mutable_data_ready();
    record.set_job_uid(event.job_uid);
    record.set_dataset(event.dataset);
    record.set_version(event.version);
  }
  void operator()(const DataFailed& event) {
    auto& record = *out_.mutable_data_failed();
    record.set_job_uid(event.job_uid);
    record.set_dataset(event.dataset);
    record.set_reason(event.reason);
    record.set_message(event.message);
  }
  void operator()(const PinsReleased& event) {
    auto& record = *out_.mutable_pins_released();
    record.set_job_uid(event.job_uid);
    record.set_generation(event.generation);
  }
  void operator()(const JobsArchived& event) {
    out_.mutable_jobs_archived()->mutable_uids()->Assign(event.uids.begin(), event.uids.end());
  }
  void operator()(const ArchiveFailed& event) {
    out_.mutable_archive_failed()->mutable_uids()->Assign(event.uids.begin(), event.uids.end());
  }
  void operator()(const Tick&) { out_.mutable_tick(); }

 private:
  const Redaction& redaction_;
  EventRecord& out_;
};

BootTime At(int64_t ns) { return BootTime::FromNanoseconds(ns); }

}  // namespace

void RecordEvent(const Event& event, const Redaction& redaction, EventRecord* out) {
  out->Clear();
  std::visit(Recorder(redaction, out), event);
}

absl::StatusOr<Event> RecordedEvent(const EventRecord& record) {
  switch (record.kind_case()) {
    case EventRecord::kLeadershipGained:
      return LeadershipGained{record.leadership_gained().token()};
    case EventRecord::kCreateJob: {
      const auto& from = record.create_job();
      return CreateJob{from.call(),      from.project(),       from.job_id(),
                       from.uid(),       from.submitter(),     from.request_id(),
                       from.body_hash(), from.validate_only(), from.traceparent(),
                       from.spec(),      from.hold()};
    }
    case EventRecord::kUpdateJob: {
      const auto& from = record.update_job();
      return UpdateJob{from.call(), from.name(), from.etag(), from.validate_only(), from.change()};
    }
    case EventRecord::kCancelJob: {
      const auto& from = record.cancel_job();
      return CancelJob{from.call(), from.name(), from.etag()};
    }
    case EventRecord::kCreateQueue: {
      const auto& from = record.create_queue();
      return CreateQueue{from.call(),       from.queue_id(),  from.uid(),
                         from.request_id(), from.body_hash(), from.queue()};
    }
    case EventRecord::kUpdateQueue: {
      const auto& from = record.update_queue();
      return UpdateQueue{from.call(), from.queue_id(), from.etag(), from.update_mask(),
                         from.queue()};
    }
    case EventRecord::kCordonNode: {
      const auto& from = record.cordon_node();
      return CordonNode{from.call(), from.cluster(), from.node(), from.owner(), from.reason()};
    }
    case EventRecord::kUncordonNode: {
      const auto& from = record.uncordon_node();
      return UncordonNode{from.call(), from.cluster(), from.node(), from.owner()};
    }
    case EventRecord::kCreateMaintenanceWindow: {
      const auto& from = record.create_maintenance_window();
      return CreateMaintenanceWindow{from.call(),      from.cluster(), from.window_id(),
                                     from.uid(),       from.creator(), from.request_id(),
                                     from.body_hash(), from.window()};
    }
    case EventRecord::kDeleteMaintenanceWindow: {
      const auto& from = record.delete_maintenance_window();
      return DeleteMaintenanceWindow{from.call(), from.cluster(), from.window_id(), from.etag()};
    }
    case EventRecord::kConfirmSilence:
      return ConfirmSilence{record.confirm_silence().call()};
    case EventRecord::kCreateCapacityOrder: {
      const auto& from = record.create_capacity_order();
      return CreateCapacityOrder{from.call(),       from.order_id(),  from.creator(),
                                 from.request_id(), from.body_hash(), from.order()};
    }
    case EventRecord::kDeleteCapacityOrder:
      return DeleteCapacityOrder{record.delete_capacity_order().call(),
                                 record.delete_capacity_order().order_id()};
    case EventRecord::kHelloReceived:
      return HelloReceived{record.hello_received().session(), record.hello_received().hello()};
    case EventRecord::kRenewalReceived: {
      const auto& from = record.renewal_received();
      return RenewalReceived{from.session(), from.sequence(), At(from.leader_until_ns())};
    }
    case EventRecord::kObservationsReceived:
      return ObservationsReceived{record.observations_received().session(),
                                  record.observations_received().observations()};
    case EventRecord::kSessionClosed:
      return SessionClosed{record.session_closed().session()};
    case EventRecord::kDataProgressed: {
      const auto& from = record.data_progressed();
      return DataProgressed{from.job_uid(),
                            from.dataset(),
                            from.data_load(),
                            from.loaded_bytes(),
                            from.total_bytes(),
                            from.bytes_per_second(),
                            FromNanoseconds(from.eta_ns())};
    }
    case EventRecord::kDataReady: {
      const auto& from = record.data_ready();
      return DataReady{from.job_uid(), from.dataset(), from.version()};
    }
    case EventRecord::kDataFailed: {
      const auto& from = record.data_failed();
      return DataFailed{from.job_uid(), from.dataset(), from.reason(), from.message()};
    }
    case EventRecord::kPinsReleased:
      return PinsReleased{record.pins_released().job_uid(), record.pins_released().generation()};
    case EventRecord::kJobsArchived: {
      const auto& uids = record.jobs_archived().uids();
      return JobsArchived{std::vector<std::string>(uids.begin(), uids.end())};
    }
    case EventRecord::kArchiveFailed: {
      const auto& uids = record.archive_failed().uids();
      return ArchiveFailed{std::vector<std::string>(uids.begin(), uids.end())};
    }
    case EventRecord::kTick:
      return Tick{};
    case EventRecord::KIND_NOT_SET:
      break;
  }
  return status::Error(absl::StatusCode::kDataLoss, "RECORDING_DAMAGED",
                       "the recording has an event of a type that this program does not know; "
                       "replay it with the program that made it");
}

std::string EventInWords(const EventRecord& record) {
  switch (record.kind_case()) {
    case EventRecord::kLeadershipGained:
      return absl::StrCat("LeadershipGained epoch ",
                          record.leadership_gained().token().leader_epoch());
    case EventRecord::kCreateJob: {
      const auto& from = record.create_job();
      return absl::StrCat("CreateJob call ", from.call(), " ", from.project(), "/jobs/",
                          from.job_id(), " uid ", from.uid());
    }
    case EventRecord::kUpdateJob:
      return absl::StrCat("UpdateJob call ", record.update_job().call(), " ",
                          record.update_job().name());
    case EventRecord::kCancelJob:
      return absl::StrCat("CancelJob call ", record.cancel_job().call(), " ",
                          record.cancel_job().name());
    case EventRecord::kCreateQueue:
      return absl::StrCat("CreateQueue call ", record.create_queue().call(), " queues/",
                          record.create_queue().queue_id());
    case EventRecord::kUpdateQueue:
      return absl::StrCat("UpdateQueue call ", record.update_queue().call(), " queues/",
                          record.update_queue().queue_id());
    case EventRecord::kCordonNode:
      return absl::StrCat("CordonNode clusters/", record.cordon_node().cluster(), "/nodes/",
                          record.cordon_node().node());
    case EventRecord::kUncordonNode:
      return absl::StrCat("UncordonNode clusters/", record.uncordon_node().cluster(), "/nodes/",
                          record.uncordon_node().node());
    case EventRecord::kCreateMaintenanceWindow:
      return absl::StrCat("CreateMaintenanceWindow call ",
                          record.create_maintenance_window().call(), " clusters/",
                          record.create_maintenance_window().cluster(), "/maintenanceWindows/",
                          record.create_maintenance_window().window_id());
    case EventRecord::kDeleteMaintenanceWindow:
      return absl::StrCat("DeleteMaintenanceWindow call ",
                          record.delete_maintenance_window().call(), " clusters/",
                          record.delete_maintenance_window().cluster(), "/maintenanceWindows/",
                          record.delete_maintenance_window().window_id());
    case EventRecord::kConfirmSilence:
      return "ConfirmSilence";
    case EventRecord::kCreateCapacityOrder:
      return absl::StrCat("CreateCapacityOrder call ", record.create_capacity_order().call(),
                          " capacityOrders/", record.create_capacity_order().order_id());
    case EventRecord::kDeleteCapacityOrder:
      return absl::StrCat("DeleteCapacityOrder call ", record.delete_capacity_order().call(),
                          " capacityOrders/", record.delete_capacity_order().order_id());
    case EventRecord::kHelloReceived:
      return absl::StrCat("HelloReceived session ", record.hello_received().session(), " clusters/",
                          record.hello_received().hello().cluster());
    case EventRecord::kRenewalReceived:
      return absl::StrCat("RenewalReceived session ", record.renewal_received().session(), " no. ",
                          record.renewal_received().sequence());
    case EventRecord::kObservationsReceived: {
      const auto& from = record.observations_received();
      return absl::StrCat("ObservationsReceived session ", from.session(), " journal ",
                          from.observations().journal_sequence(), ": ",
                          from.observations().tasks_size(), " tasks, ",
                          from.observations().nodes_size(), " nodes");
    }
    case EventRecord::kSessionClosed:
      return absl::StrCat("SessionClosed session ", record.session_closed().session());
    case EventRecord::kDataProgressed:
      return absl::StrCat("DataProgressed job ", record.data_progressed().job_uid());
    case EventRecord::kDataReady:
      return absl::StrCat("DataReady job ", record.data_ready().job_uid());
    case EventRecord::kDataFailed:
      return absl::StrCat("DataFailed job ", record.data_failed().job_uid(), " ",
                          record.data_failed().reason());
    case EventRecord::kPinsReleased:
      return absl::StrCat("PinsReleased job ", record.pins_released().job_uid(), " generation ",
                          record.pins_released().generation());
    case EventRecord::kJobsArchived:
      return absl::StrCat("JobsArchived ", record.jobs_archived().uids_size(), " jobs");
    case EventRecord::kArchiveFailed:
      return absl::StrCat("ArchiveFailed ", record.archive_failed().uids_size(), " jobs");
    case EventRecord::kTick:
      return "Tick";
    case EventRecord::KIND_NOT_SET:
      break;
  }
  return "unknown";
}

int64_t ToNanoseconds(absl::Duration duration) { return absl::ToInt64Nanoseconds(duration); }

absl::Duration FromNanoseconds(int64_t ns) {
  if (ns == std::numeric_limits<int64_t>::max()) return absl::InfiniteDuration();
  if (ns == std::numeric_limits<int64_t>::min()) return -absl::InfiniteDuration();
  return absl::Nanoseconds(ns);
}

}  // namespace capstan::scheduler
