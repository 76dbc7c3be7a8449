#include "services/scheduler/recorder/decision_record.h"

#include <xxhash.h>

#include <map>
#include <variant>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "libs/session/lower_side.h"
#include "services/scheduler/recorder/event_record.h"

namespace capstan::scheduler {
namespace {

using recording::ConfigRecord;
using recording::Decision;

uint64_t DigestOfMessage(const google::protobuf::MessageLite& message) {
  return DigestOf(session::SerializeDeterministic(message));
}

void RecordError(const absl::Status& status, Decision::Error* out) {
  out->set_code(static_cast<int>(status.code()));
  out->set_message(std::string(status.message()));
  std::map<std::string, std::string> details;
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    details[std::string(type)] = std::string(payload);
  });
  std::string text;
  for (const auto& [type, payload] : details) {
    absl::StrAppend(&text, type.size(), " ", type, payload.size(), " ", payload);
  }
  if (!text.empty()) out->set_details_digest(DigestOf(text));
}

// Of a span's fields, each with its length, so that no two spans read the same.
uint64_t DigestOfSpan(const trace::Span& span) {
  std::string text = absl::StrCat(span.context.trace_high, " ", span.context.trace_low, " ",
                                  span.context.span, " ", span.parent, " ",
                                  static_cast<int>(span.kind), " ", absl::ToUnixNanos(span.begin),
                                  " ", absl::ToUnixNanos(span.end), " ", span.failed);
  for (const std::string* part : {&span.name, &span.error}) {
    absl::StrAppend(&text, " ", part->size(), " ", *part);
  }
  for (const trace::Attribute& attribute : span.attributes) {
    absl::StrAppend(&text, " ", attribute.key.size(), " ", attribute.key, " ",
                    attribute.value.index(), " ");
    absl::visit([&](const auto& value) { absl::StrAppend(&text, value, " "); }, attribute.value);
  }
  return DigestOf(text);
}

class EffectRecorder {
 public:
  explicit EffectRecorder(Decision* out) : out_(*out) {}

  void operator()(const SendDown& effect) {
    auto& record = *out_.add_effects()->mutable_send_down();
    record.set_session(effect.session);
    *record.mutable_message() = effect.message;
    Redaction::Redact(record.mutable_message());
    record.set_send_before_ns(effect.send_before.ToNanoseconds());
  }
  void operator()(const CloseSession& effect) {
    auto& record = *out_.add_effects()->mutable_close_session();
    record.set_session(effect.session);
    RecordError(effect.status, record.mutable_error());
  }
  void operator()(const ReplyJob& effect) {
    Decision::Reply& record = Reply("Job", effect.call, effect.job.status());
    if (!effect.job.ok()) return;
    record.set_name(effect.job->name());
    record.set_digest(DigestOfJob(*effect.job));
  }
  void operator()(const ReplyQueue& effect) {
    Decision::Reply& record = Reply("Queue", effect.call, effect.queue.status());
    if (!effect.queue.ok()) return;
    record.set_name(effect.queue->name());
    record.set_digest(DigestOfMessage(*effect.queue));
  }
  void operator()(const ReplyNode& effect) {
    Decision::Reply& record = Reply("Node", effect.call, effect.node.status());
    if (!effect.node.ok()) return;
    record.set_name(effect.node->name());
    record.set_digest(DigestOfMessage(*effect.node));
  }
  void operator()(const ReplyCapacityOrder& effect) {
    Decision::Reply& record = Reply("CapacityOrder", effect.call, effect.order.status());
    if (!effect.order.ok()) return;
    record.set_name(effect.order->name());
    record.set_digest(DigestOfMessage(*effect.order));
  }
  void operator()(const ReplyMaintenanceWindow& effect) {
    Decision::Reply& record = Reply("MaintenanceWindow", effect.call, effect.window.status());
    if (!effect.window.ok()) return;
    record.set_name(effect.window->name());
    record.set_digest(DigestOfMessage(*effect.window));
  }
  void operator()(const ReplyEmpty& effect) { Reply("Empty", effect.call, effect.status); }
  void operator()(const EnsureData& effect) {
    auto& record = *out_.add_effects()->mutable_ensure_data();
    record.set_job_uid(effect.job_uid);
    record.set_dataset_position(effect.dataset_position);
    record.set_dataset(effect.dataset);
    record.set_version(effect.version);
    record.set_cluster(effect.cluster);
  }
  void operator()(const StopData& effect) {
    out_.add_effects()->mutable_stop_data()->set_job_uid(effect.job_uid);
  }
  void operator()(const ReleasePins& effect) {
    auto& record = *out_.add_effects()->mutable_release_pins();
    record.set_job_uid(effect.job_uid);
    record.set_generation(effect.generation);
  }
  void operator()(const ArchiveJobs& effect) {
    auto& record = *out_.add_effects()->mutable_archive_jobs();
    for (const capstan::scheduler::v1::Job& job : effect.jobs) {
      record.add_uids(job.uid());
      record.add_digests(DigestOfJob(job));
    }
  }
  void operator()(const ObserverSuspected& effect) {
    out_.add_effects()->mutable_observer_suspected()->set_suspected(effect.suspected);
  }
  void operator()(const TellSpan& effect) {
    auto& record = *out_.add_effects()->mutable_tell_span();
    record.set_name(effect.span.name);
    record.set_digest(DigestOfSpan(effect.span));
    record.set_until_stored(effect.until_stored);
  }

 private:
  Decision::Reply& Reply(absl::string_view kind, CallId call, const absl::Status& status) {
    Decision::Reply& record = *out_.add_effects()->mutable_reply();
    record.set_kind(std::string(kind));
    record.set_call(call);
    if (!status.ok()) RecordError(status, record.mutable_error());
    return record;
  }

  static uint64_t DigestOfJob(capstan::scheduler::v1::Job job) {
    Redaction::Redact(job.mutable_spec());
    return DigestOfMessage(job);
  }

  Decision& out_;
};

}  // namespace

void RecordDecision(const Step& step, const Redaction& redaction, Decision* out) {
  out->Clear();
  for (const scheduler::Write& write : step.persist) {
    Decision::Write& record = *out->add_writes();
    for (const store::Put& put : write.puts) {
      recording::RecordRecord& one = *record.add_puts();
      one.set_key(put.key);
      one.set_value(redaction.Record(put.key, put.value));
    }
    for (const store::Delete& erase : write.deletes) {
      Decision::Delete& one = *record.add_deletes();
      one.set_key(erase.key);
      one.set_end(erase.end);
    }
    for (const auto& event : write.events) record.add_event_digests(DigestOfMessage(event));
  }
  for (const scheduler::Effect& effect : step.after) std::visit(EffectRecorder(out), effect);
}

void SerializeDecision(const Decision& decision, std::string* out) {
  out->clear();
  google::protobuf::io::StringOutputStream stream(out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  decision.SerializeToCodedStream(&coded);
}

uint64_t DigestOf(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

ConfigRecord RecordConfig(const CoreConfig& config) {
  const auto& [suspect_after, default_fence_after, min_fence_after, max_fence_after, replace_margin,
               prepare_timeout, freeze_window, freeze_percent, freeze_min_executors,
               freeze_min_nodes, min_runtime, spare_for, min_grow_after, return_within,
               repartition_max_cost, repartition_act_cost, repartition_pause, visit_all, begin_anew,
               max_jobs, keep_finished_for, max_finished_jobs, archive_retry, request_id_ttl,
               streak_reset_after] = config;
  ConfigRecord record;
  record.set_suspect_after(ToNanoseconds(suspect_after));
  record.set_default_fence_after(ToNanoseconds(default_fence_after));
  record.set_min_fence_after(ToNanoseconds(min_fence_after));
  record.set_max_fence_after(ToNanoseconds(max_fence_after));
  record.set_replace_margin(ToNanoseconds(replace_margin));
  record.set_prepare_timeout(ToNanoseconds(prepare_timeout));
  record.set_freeze_window(ToNanoseconds(freeze_window));
  record.set_freeze_percent(freeze_percent);
  record.set_freeze_min_executors(freeze_min_executors);
  record.set_freeze_min_nodes(freeze_min_nodes);
  record.set_min_runtime(ToNanoseconds(min_runtime));
  record.set_spare_for(ToNanoseconds(spare_for));
  record.set_min_grow_after(ToNanoseconds(min_grow_after));
  record.set_return_within(ToNanoseconds(return_within));
  record.set_repartition_max_cost(ToNanoseconds(repartition_max_cost));
  record.set_repartition_act_cost(ToNanoseconds(repartition_act_cost));
  record.set_repartition_pause(ToNanoseconds(repartition_pause));
  record.set_visit_all(visit_all);
  record.set_begin_anew(begin_anew);
  record.set_max_jobs(max_jobs);
  record.set_keep_finished_for(ToNanoseconds(keep_finished_for));
  record.set_max_finished_jobs(max_finished_jobs);
  record.set_archive_retry(ToNanoseconds(archive_retry));
  record.set_request_id_ttl(ToNanoseconds(request_id_ttl));
  record.set_streak_reset_after(ToNanoseconds(streak_reset_after));
  return record;
}

CoreConfig RecordedConfig(const ConfigRecord& record) {
  CoreConfig config;
  config.suspect_after = FromNanoseconds(record.suspect_after());
  config.default_fence_after = FromNanoseconds(record.default_fence_after());
  config.min_fence_after = FromNanoseconds(record.min_fence_after());
  config.max_fence_after = FromNanoseconds(record.max_fence_after());
  config.replace_margin = FromNanoseconds(record.replace_margin());
  config.prepare_timeout = FromNanoseconds(record.prepare_timeout());
  config.freeze_window = FromNanoseconds(record.freeze_window());
  config.freeze_percent = record.freeze_percent();
  config.freeze_min_executors = record.freeze_min_executors();
  config.freeze_min_nodes = record.freeze_min_nodes();
  config.min_runtime = FromNanoseconds(record.min_runtime());
  config.spare_for = FromNanoseconds(record.spare_for());
  config.min_grow_after = FromNanoseconds(record.min_grow_after());
  config.return_within = FromNanoseconds(record.return_within());
  config.repartition_max_cost = FromNanoseconds(record.repartition_max_cost());
  config.repartition_act_cost = FromNanoseconds(record.repartition_act_cost());
  config.repartition_pause = FromNanoseconds(record.repartition_pause());
  config.visit_all = record.visit_all();
  config.begin_anew = record.begin_anew();
  config.max_jobs = record.max_jobs();
  config.keep_finished_for = FromNanoseconds(record.keep_finished_for());
  config.max_finished_jobs = record.max_finished_jobs();
  config.archive_retry = FromNanoseconds(record.archive_retry());
  config.request_id_ttl = FromNanoseconds(record.request_id_ttl());
  config.streak_reset_after = FromNanoseconds(record.streak_reset_after());
  return config;
}

}  // namespace capstan::scheduler
