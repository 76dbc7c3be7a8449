#include "services/scheduler/core/queue_waits.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/amount_words.h"
#include "services/scheduler/core/queue_book.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Queue;
using Constraint = ExplainJobResponse::Constraint;
using Counterfactual = ExplainJobResponse::Counterfactual;

bool StartsNothing(const Queue& queue) { return queue.hold() || queue.drain(); }

Constraint& Add(const std::string& type, Constraint::Level level, const std::string& message,
                ExplainJobResponse* response) {
  Constraint& constraint = *response->add_constraints();
  constraint.set_type(type);
  constraint.set_level(level);
  constraint.set_message(message);
  return constraint;
}

// The Queue of the Job, or one above it, whose rate its words name.
void SetRate(const Model& model, const JobEntry& job, Constraint* constraint) {
  std::string id(absl::StripPrefix(job.spec.spec().queue(), "queues/"));
  // A tree has no more levels than Queues.
  for (size_t level = 0; level < model.queues.size(); ++level) {
    const auto found = model.queues.find(id);
    if (found == model.queues.end()) return;
    const Queue& queue = found->second.queue();
    const std::string name = absl::StrCat("queues/", id);
    if (queue.has_start_rate() && absl::StartsWith(job.state.message(), absl::StrCat(name, " "))) {
      constraint->set_queue(name);
      constraint->set_limit(queue.start_rate().count());
      constraint->set_requested(1);
      *constraint->mutable_period() = queue.start_rate().period();
      return;
    }
    id = std::string(absl::StripPrefix(queue.parent(), "queues/"));
  }
}

// By how much each limit is too low, in one counterfactual.
void AddRaises(const std::vector<QueueBook::LimitWait>& waits, ExplainJobResponse* response) {
  Counterfactual counterfactual;
  counterfactual.set_kind(Counterfactual::KIND_QUOTA);
  std::vector<std::string> words;
  for (const QueueBook::LimitWait& wait : waits) {
    // Nothing starts there, whatever it may have.
    if (wait.resource.empty()) return;
    ExplainJobResponse::Raise& raise = *counterfactual.add_raises();
    raise.set_queue(wait.queue);
    raise.set_resource(wait.resource);
    raise.set_limit(wait.limit);
    raise.set_more(wait.in_use + wait.requested - wait.limit);
    const std::string more = AmountInWords(wait.resource, raise.more());
    words.push_back(wait.queue.empty()
                        ? absl::StrCat("the fleet had ", more, " more of ", wait.resource,
                                       " beside what is guaranteed and not lent")
                        : absl::StrCat(wait.queue, "'s limit of ", wait.resource, " were ", more,
                                       " more, or that much is given back there"));
  }
  if (words.empty()) return;
  counterfactual.set_message(absl::StrCat("would be tried if ", absl::StrJoin(words, ", and if ")));
  *response->add_counterfactuals() = std::move(counterfactual);
}

void AddLimits(const JobEntry& job, const QueueSight* sight, ExplainJobResponse* response) {
  std::vector<QueueBook::LimitWait> waits;
  if (sight != nullptr) waits = sight->book->Refusals(job, sight->capacity);
  for (const QueueBook::LimitWait& wait : waits) {
    const bool is_limit = !wait.resource.empty();
    Constraint& constraint =
        Add(is_limit ? "queue_limit" : "queue_held",
            is_limit ? Constraint::LEVEL_QUOTA : Constraint::LEVEL_QUEUE, wait.words, response);
    constraint.set_queue(wait.queue);
    constraint.set_resource(wait.resource);
    constraint.set_limit(wait.limit);
    constraint.set_in_use(wait.in_use);
    constraint.set_requested(wait.requested);
  }
  // As the last round that tried it found it.
  if (waits.empty()) {
    Add("queue_limit", Constraint::LEVEL_QUOTA, job.state.message(), response)
        .set_queue(job.spec.spec().queue());
  }
  AddRaises(waits, response);
}

}  // namespace

void ExplainQueueWaits(const Model& model, const JobEntry& job, const QueueSight* sight,
                       ExplainJobResponse* response) {
  if (job.state.state() != Job::STATE_QUEUED) return;
  if (job.state.hold()) {
    Add("held", Constraint::LEVEL_JOB,
        absl::StrCat("the Job is held; `capstan job release ", job.spec.name(), "` lets it start"),
        response);
  }
  const std::string& reason = job.state.reason();
  if (reason == "QUEUE_LIMIT") {
    AddLimits(job, sight, response);
  } else if (reason == "QUEUE_HELD") {
    const std::string id(absl::StripPrefix(job.spec.spec().queue(), "queues/"));
    const std::string above = QueueAbove(model, id, StartsNothing);
    Add("queue_held", Constraint::LEVEL_QUEUE, job.state.message(), response)
        .set_queue(above.empty() ? job.spec.spec().queue() : absl::StrCat("queues/", above));
  } else if (reason == "QUEUE_RATE") {
    SetRate(model, job, &Add("queue_rate", Constraint::LEVEL_RATE, job.state.message(), response));
  } else if (reason == "RESERVED") {
    Add("reserved", Constraint::LEVEL_ORDER, job.state.message(), response);
  } else if (reason == kAwaitsTurn) {
    Add("array", Constraint::LEVEL_ORDER, job.state.message(), response);
  } else if (reason == kAwaitsJobs) {
    Add("jobs", Constraint::LEVEL_DEPENDENCY, job.state.message(), response);
  }
}

}  // namespace capstan::scheduler
