// Queues as they are stored, in the quota tree's words, and what may be stored.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/quota/validation.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;

constexpr char kCpu[] = "cpu";
constexpr char kMemory[] = "memory";

std::string QueueIdOf(absl::string_view name) {
  return std::string(absl::StripPrefix(name, "queues/"));
}

Limit LimitOf(const pb::QuotaLimit& limit) {
  switch (limit.limit_case()) {
    case pb::QuotaLimit::kAmount:
      return Limit::Of(limit.amount());
    case pb::QuotaLimit::kUnlimited:
      return limit.unlimited() ? Limit::Unlimited() : Limit();
    case pb::QuotaLimit::LIMIT_NOT_SET:
      break;
  }
  return Limit();
}

Rate RateOf(const pb::RateLimit& limit) {
  return {limit.count(), ToDuration(limit.period()),
          limit.burst() == 0 ? limit.count() : limit.burst()};
}

QueueSpec SpecOf(const std::string& id, const pb::Queue& queue) {
  QueueSpec spec;
  spec.id = id;
  spec.parent = QueueIdOf(queue.parent());
  spec.weight = queue.weight() == 0 ? kDefaultQueueWeight : queue.weight();
  spec.stops = {queue.cordon(), queue.hold(), queue.drain()};
  if (queue.has_usage_half_life()) spec.half_life = ToDuration(queue.usage_half_life());
  if (queue.has_submit_rate()) spec.submit_rate = RateOf(queue.submit_rate());
  if (queue.has_start_rate()) spec.start_rate = RateOf(queue.start_rate());
  for (const pb::ResourceQuota& given : queue.quotas()) {
    Quota& quota = spec.quotas[given.resource()];
    if (given.has_guarantee()) quota.guarantee = Limit::Of(given.guarantee());
    quota.borrowing = LimitOf(given.borrowing_limit());
    quota.lending = LimitOf(given.lending_limit());
  }
  return spec;
}

// The violation's field as one of the request: `queues[7].quotas["cpu"].guarantee` becomes
// `queue.quotas[0].guarantee`. What concerns other queues, by what the new one guarantees, is
// reported of its quotas.
std::string FieldOf(const QuotaViolation& violation, const std::string& own_prefix,
                    const pb::Queue& queue) {
  absl::string_view field = violation.field;
  if (!absl::ConsumePrefix(&field, own_prefix)) return "queue.quotas";
  for (int i = 0; i < queue.quotas_size(); ++i) {
    const std::string by_name = absl::StrCat("quotas[\"", queue.quotas(i).resource(), "\"].");
    if (!absl::ConsumePrefix(&field, by_name)) continue;
    const bool limit = field == "borrowing" || field == "lending";
    return absl::StrCat("queue.quotas[", i, "].", field, limit ? "_limit" : "");
  }
  return absl::StrCat("queue.", field);
}

bool HasLiveJobs(const Model& model, const std::string& queue) {
  bool any = false;
  model.jobs.ForEachGlance([&queue, &any](const JobGlance& job) {
    any = any || (!job.final() && absl::StripPrefix(job.queue, "queues/") == queue);
  });
  return any;
}

}  // namespace

std::vector<std::string> CountedResources(const std::vector<QueueSpec>& specs,
                                          const std::set<std::string>& accelerators,
                                          const QueueHistories::Named& histories) {
  std::set<std::string> names = {kCpu, kMemory};
  for (const QueueSpec& spec : specs) {
    for (const auto& [resource, quota] : spec.quotas) names.insert(resource);
  }
  for (const std::string& accelerator : accelerators) {
    if (names.size() < kMaxResources) names.insert(accelerator);
  }
  for (const auto& [queue, history] : histories) {
    for (const auto& [resource, amount] : history.amounts) {
      if (names.size() < kMaxResources) names.insert(resource);
    }
  }
  return {names.begin(), names.end()};
}

Resources ResourcesOf(const QueueTree& tree, const Amounts& amounts) {
  Resources resources;
  const auto set = [&](absl::string_view name, int64_t amount) {
    const int r = tree.resources().Find(name);
    if (r >= 0) resources[r] = std::clamp<int64_t>(amount, 0, kMaxAmount);
  };
  set(kCpu, amounts.cpu_millis);
  set(kMemory, amounts.memory_bytes);
  for (const auto& [name, count] : amounts.accelerators) set(name, count);
  return resources;
}

int LeafOf(const QueueTree& tree, const std::string& queue) {
  const absl::optional<int> index = tree.Find(queue);
  return index.has_value() && tree.leaf(*index) ? *index : -1;
}

std::vector<QueueSpec> QueueSpecsOf(const std::map<std::string, rec::QueueRecord>& queues) {
  std::vector<QueueSpec> specs;
  for (const auto& [id, record] : queues) specs.push_back(SpecOf(id, record.queue()));
  return specs;
}

bool HasQueuesBelow(const Model& model, const std::string& id) {
  return std::any_of(model.queues.begin(), model.queues.end(), [&id](const auto& entry) {
    return QueueIdOf(entry.second.queue().parent()) == id;
  });
}

std::string QueueAbove(const Model& model, const std::string& id, bool (*holds)(const pb::Queue&)) {
  std::string uppermost;
  for (auto queue = model.queues.find(id); queue != model.queues.end();
       queue = model.queues.find(QueueIdOf(queue->second.queue().parent()))) {
    if (holds(queue->second.queue())) uppermost = queue->first;
  }
  return uppermost;
}

const pb::Queue* NearestQueue(const Model& model, const JobEntry& job,
                              bool (*holds)(const pb::Queue&)) {
  for (auto queue = model.queues.find(QueueIdOf(job.spec.spec().queue()));
       queue != model.queues.end();
       queue = model.queues.find(QueueIdOf(queue->second.queue().parent()))) {
    if (holds(queue->second.queue())) return &queue->second.queue();
  }
  return nullptr;
}

absl::Status CheckChangedQueue(const Model& model, const std::string& id, const pb::Queue& queue) {
  std::vector<QueueSpec> specs;
  for (const auto& [other, record] : model.queues) {
    if (other != id) specs.push_back(SpecOf(other, record.queue()));
  }
  const std::string own_prefix = absl::StrCat("queues[", specs.size(), "].");
  specs.push_back(SpecOf(id, queue));
  // Cores and memory are always counted.
  specs.back().quotas[kCpu];
  specs.back().quotas[kMemory];
  status::FieldErrors errors;
  for (const QuotaViolation& violation : ValidateQueues(specs)) {
    errors.Add(FieldOf(violation, own_prefix, queue), violation.description);
  }
  return errors.ToStatus();
}

absl::Status CheckNewQueue(const Model& model, const std::string& id, const pb::Queue& queue) {
  const absl::Status valid = CheckChangedQueue(model, id, queue);
  if (!valid.ok()) return valid;
  const std::string parent = QueueIdOf(queue.parent());
  if (parent.empty() || HasQueuesBelow(model, parent) || !HasLiveJobs(model, parent)) {
    return absl::OkStatus();
  }
  return status::Error(absl::StatusCode::kFailedPrecondition, "QUEUE_HAS_JOBS",
                       absl::StrCat(queue.parent(),
                                    " has Jobs that are not over, and a Queue with Queues below it "
                                    "takes none; create the Queue below another, or wait"),
                       {{"queue", queue.parent()}});
}

}  // namespace capstan::scheduler
