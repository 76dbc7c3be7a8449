#include "services/scheduler/core/job_spans.h"

#include <cstddef>
#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;

namespace {

// Named in a span; of a larger gang the others are only counted.
constexpr size_t kMaxNodes = 16;

// Of whatever made the Job.
absl::optional<trace::Context> CallerOf(const JobEntry& job) {
  return trace::Parse(job.spec.traceparent());
}

trace::Span SpanOf(const JobEntry& job, absl::string_view name, const trace::Context& context,
                   uint64_t parent) {
  trace::Span span;
  span.context = context;
  span.parent = parent;
  span.name = std::string(name);
  span.attributes = {{"capstan.job", job.spec.name()}, {"capstan.job_uid", job.uid()}};
  return span;
}

bool IsOfGeneration(absl::string_view phase) {
  return phase == kPreparePhase || phase == "job.run" || phase == "job.stop";
}

}  // namespace

absl::optional<trace::Context> JobTrace(const JobEntry& job) {
  const absl::optional<trace::Context> caller = CallerOf(job);
  if (!caller.has_value()) return absl::nullopt;
  return trace::Derive(*caller, job.uid());
}

absl::optional<trace::Context> GenerationTrace(const JobEntry& job) {
  const absl::optional<trace::Context> caller = CallerOf(job);
  if (!caller.has_value()) return absl::nullopt;
  return trace::Derive(*caller, absl::StrCat(job.uid(), "/", job.state.generation()));
}

bool IsTraced(const JobEntry& job) {
  const absl::optional<trace::Context> caller = CallerOf(job);
  return caller.has_value() && caller->sampled;
}

std::string PhaseOf(const JobEntry& job) {
  switch (job.state.state()) {
    case Job::STATE_QUEUED:
      if (job.state.reason() == "DEPENDENCY" || job.state.reason() == "ARRAY_LIMIT") {
        return "job.await_jobs";
      }
      if (job.state.reason() == "AWAITING_DATA") return "job.await_data";
      if (job.state.reason() == "HELD") return "job.held";
      return job.state.reason() == "BACK_OFF" ? "job.back_off" : kQueuePhase;
    case Job::STATE_PREPARING:
      return kPreparePhase;
    case Job::STATE_RUNNING:
      return "job.run";
    case Job::STATE_STOPPING:
      return "job.stop";
    default:
      return "";
  }
}

trace::Span SubmitSpan(const JobEntry& job, absl::Time begin) {
  const trace::Context caller = *CallerOf(job);
  trace::Span span = SpanOf(job, "job.submit",
                            trace::Derive(caller, absl::StrCat(job.uid(), "/submit")), caller.span);
  span.begin = begin;
  return span;
}

trace::Span PlaceSpan(const JobEntry& job, absl::Time begin) {
  const trace::Context generation = *GenerationTrace(job);
  trace::Span span = SpanOf(
      job, "job.place",
      trace::Derive(generation, absl::StrCat(job.uid(), "/", job.state.generation(), "/place")),
      generation.span);
  span.attributes.emplace_back("capstan.generation", job.state.generation());
  span.attributes.emplace_back("capstan.cluster", job.gang->head.cluster());
  span.begin = begin;
  return span;
}

trace::Span PhaseSpan(const JobEntry& job, absl::Time end) {
  const std::string phase = PhaseOf(job);
  const trace::Context parent = IsOfGeneration(phase) ? *GenerationTrace(job) : *JobTrace(job);
  const absl::Time begin =
      job.state.has_phase_time() ? ToTime(job.state.phase_time()) : ToTime(job.spec.create_time());
  // A Job may be at the same thing several times.
  trace::Span span =
      SpanOf(job, phase,
             trace::Derive(parent, absl::StrCat(job.uid(), "/", job.state.generation(), "/", phase,
                                                "/", absl::ToUnixNanos(begin))),
             parent.span);
  if (IsOfGeneration(phase)) {
    span.attributes.emplace_back("capstan.generation", job.state.generation());
  }
  span.begin = begin;
  span.end = end;
  return span;
}

trace::Span GenerationSpan(const JobEntry& job, absl::Time end, const std::string& why) {
  trace::Span span = SpanOf(job, "job.generation", *GenerationTrace(job), JobTrace(job)->span);
  const std::set<std::string> nodes(job.gang->nodes.begin(), job.gang->nodes.end());
  std::set<std::string> named;
  for (const std::string& node : nodes) {
    if (named.size() < kMaxNodes) named.insert(node);
  }
  span.attributes.emplace_back("capstan.generation", job.state.generation());
  span.attributes.emplace_back("capstan.cluster", job.gang->head.cluster());
  span.attributes.emplace_back("capstan.nodes", absl::StrJoin(named, ","));
  span.attributes.emplace_back("capstan.node_count", static_cast<int64_t>(nodes.size()));
  span.attributes.emplace_back("capstan.task_count", static_cast<int64_t>(job.gang->tasks.size()));
  span.begin = job.state.has_generation_time() ? ToTime(job.state.generation_time())
                                               : ToTime(job.spec.create_time());
  span.end = end;
  span.failed = !why.empty();
  span.error = why;
  return span;
}

trace::Span JobSpan(const JobEntry& job) {
  trace::Span span = SpanOf(job, "job", *JobTrace(job), CallerOf(job)->span);
  span.attributes.emplace_back("capstan.queue", job.spec.spec().queue());
  span.attributes.emplace_back("capstan.state",
                               Job::State_Name(job.state.state()).substr(sizeof("STATE_") - 1));
  span.attributes.emplace_back("capstan.generations", job.state.generation());
  span.begin = ToTime(job.spec.create_time());
  span.end = ToTime(job.state.end_time());
  span.failed = job.state.state() == Job::STATE_FAILED;
  if (span.failed) span.error = job.state.reason();
  return span;
}

}  // namespace capstan::scheduler
