#include "services/scheduler/core/queue_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/quota/admission.h"
#include "services/scheduler/core/quota/validation.h"
#include "services/scheduler/core/retry.h"

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

// Names that are counted: those of quotas always, the others while there is room. What was used and
// is gone from the fleet may come back.
std::vector<std::string> Names(const std::vector<QueueSpec>& specs,
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
  return std::any_of(model.jobs.begin(), model.jobs.end(), [&queue](const auto& entry) {
    const JobEntry& job = entry.second;
    return !job.final() && QueueIdOf(job.spec.spec().queue()) == queue;
  });
}

Amounts AmountsOf(const JobEntry& job) {
  Amounts amounts;
  for (const auto& group : job.spec.spec().task_groups()) {
    amounts.Add(Amounts::From(group.resources()), group.replicas());
  }
  return amounts;
}

Amounts LiveAmounts(const JobEntry& job) {
  Amounts amounts;
  if (job.state.making_room_size() > 0 || ReturnsAtOnce(job)) return AmountsOf(job);
  if (!job.live() || IsMakingWay(*job.gang)) return amounts;
  int rank = 0;
  for (const auto& group : job.spec.spec().task_groups()) {
    int64_t live = 0;
    for (int i = 0; i < group.replicas(); ++i) live += job.gang->ended(rank++) ? 0 : 1;
    if (live > 0) amounts.Add(Amounts::From(group.resources()), live);
  }
  return amounts;
}

}  // namespace

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

void QueueBook::SetTree(const std::map<std::string, rec::QueueRecord>& queues,
                        const std::set<std::string>& accelerators) {
  const std::vector<QueueSpec> specs = QueueSpecsOf(queues);
  const bool restoring = restored_.has_value();
  QueueHistories::Named histories =
      restoring ? *std::exchange(restored_, absl::nullopt) : histories_.All(tree_);
  accelerators_ = accelerators;
  const RateGate::Buckets submissions = submissions_.TakeBuckets();
  const RateGate::Buckets starts = starts_.TakeBuckets();
  tree_ = QueueTree(specs, Names(specs, accelerators_, histories));
  submissions_ = RateGate(tree_, RateGate::Kind::kSubmit, now_.boot, submissions);
  starts_ = RateGate(tree_, RateGate::Kind::kStart, now_.boot, starts);
  usage_ = TreeUsage(tree_);
  waiting_ = GangQueues(tree_);
  fresh_ = GangQueues(tree_);
  requests_ = RequestClasses();
  for (auto& [sequence, gang] : gangs_) Insert(sequence, gang);
  for (const auto& [uid, live] : live_) {
    const int leaf = LeafOf(live.queue);
    if (leaf >= 0) usage_.Add(leaf, ToResources(live.amounts));
  }
  if (restoring) {
    for (auto& [id, history] : histories) TakeForUsed(id, &history);
  }
  histories_.SetTree(tree_, histories, now_.wall);
  unsettled_.clear();
  all_unsettled_ = true;
}

void QueueBook::Restore(const std::map<std::string, rec::QueueUsageRecord>& usage) {
  restored_.emplace();
  for (const auto& [id, record] : usage) {
    NamedHistory& history = (*restored_)[id];
    history.as_of = ToTime(record.as_of());
    history.half_life = ToDuration(record.half_life());
    for (const auto& amount : record.amounts()) {
      history.amounts[amount.resource()] = {std::clamp<int64_t>(amount.average(), 0, kMaxAmount),
                                            amount.fraction(),
                                            std::clamp<int64_t>(amount.used(), 0, kMaxAmount)};
    }
  }
}

void QueueBook::TakeForUsed(const std::string& id, NamedHistory* history) {
  const absl::optional<int> node = tree_.Find(id);
  if (!node.has_value()) return;
  bool differs = false;
  for (int r = 0; r < tree_.resource_count(); ++r) {
    const int64_t used = usage_.used(*node)[r];
    const std::string& name = tree_.resources().name(r);
    const auto known = history->amounts.find(name);
    if ((known == history->amounts.end() ? 0 : known->second.used) == used) continue;
    history->amounts[name].used = used;
    differs = true;
  }
  if (differs) histories_.MarkChanged(id);
}

std::set<std::string> QueueBook::SettleUsage() {
  if (std::exchange(all_unsettled_, false)) {
    histories_.SettleAll(usage_, now_.wall);
  } else {
    for (int leaf : unsettled_) histories_.Settle(usage_, leaf, now_.wall);
  }
  unsettled_.clear();
  return histories_.TakeChanged();
}

absl::optional<rec::QueueUsageRecord> QueueBook::UsageOf(const std::string& queue) {
  const absl::optional<NamedHistory> history = histories_.Renew(tree_, queue, now_.wall);
  if (!history.has_value()) return absl::nullopt;
  rec::QueueUsageRecord record;
  record.set_schema_version(1);
  *record.mutable_as_of() = ToProto(history->as_of);
  *record.mutable_half_life() = ToProto(history->half_life);
  for (const auto& [resource, amount] : history->amounts) {
    rec::QueueUsageRecord::Amount& stored = *record.add_amounts();
    stored.set_resource(resource);
    stored.set_average(amount.average);
    stored.set_fraction(amount.fraction);
    stored.set_used(amount.used);
  }
  return record;
}

Resources QueueBook::ToResources(const Amounts& amounts) const {
  Resources resources;
  const auto set = [&](absl::string_view name, int64_t amount) {
    const int r = tree_.resources().Find(name);
    if (r >= 0) resources[r] = std::clamp<int64_t>(amount, 0, kMaxAmount);
  };
  set(kCpu, amounts.cpu_millis);
  set(kMemory, amounts.memory_bytes);
  for (const auto& [name, count] : amounts.accelerators) set(name, count);
  return resources;
}

int QueueBook::LeafOf(const std::string& queue) const {
  const absl::optional<int> index = tree_.Find(queue);
  return index.has_value() && tree_.leaf(*index) ? *index : -1;
}

void QueueBook::SetLive(const JobEntry& job) {
  const int leaf = LeafOf(QueueIdOf(job.spec.spec().queue()));
  auto known = live_.find(job.uid());
  if (leaf >= 0) unsettled_.insert(leaf);
  if (known != live_.end()) {
    if (leaf >= 0) usage_.Remove(leaf, ToResources(known->second.amounts));
    live_.erase(known);
  }
  Amounts amounts = LiveAmounts(job);
  if (amounts == Amounts()) return;
  if (leaf >= 0) usage_.Add(leaf, ToResources(amounts));
  live_[job.uid()] = {QueueIdOf(job.spec.spec().queue()), std::move(amounts)};
}

QueuedGang QueueBook::QueuedOf(int64_t sequence, const Gang& gang) const {
  QueuedGang queued;
  queued.priority = gang.priority;
  queued.request = gang.request;
  queued.submit_order = sequence;
  return queued;
}

void QueueBook::Insert(int64_t sequence, Gang& gang) {
  gang.request = requests_.Acquire(ToResources(gang.amounts));
  const int leaf = LeafOf(gang.queue);
  if (leaf < 0) return;
  waiting_.Insert(leaf, QueuedOf(sequence, gang));
  if (gang.fresh) fresh_.Insert(leaf, QueuedOf(sequence, gang));
}

void QueueBook::AddWaiting(const JobEntry& job) {
  RemoveWaiting(job);
  Gang gang;
  gang.uid = job.uid();
  gang.queue = QueueIdOf(job.spec.spec().queue());
  gang.priority = job.spec.spec().priority();
  gang.amounts = AmountsOf(job);
  const int64_t sequence = job.spec.submit_sequence();
  Insert(sequence, gangs_[sequence] = std::move(gang));
}

void QueueBook::SetTried(const JobEntry& job) {
  auto it = gangs_.find(job.spec.submit_sequence());
  if (it == gangs_.end() || !it->second.fresh) return;
  it->second.fresh = false;
  const int leaf = LeafOf(it->second.queue);
  if (leaf >= 0) fresh_.Erase(leaf, QueuedOf(it->first, it->second));
}

void QueueBook::RemoveWaiting(const JobEntry& job) {
  auto it = gangs_.find(job.spec.submit_sequence());
  if (it == gangs_.end()) return;
  const int leaf = LeafOf(it->second.queue);
  if (leaf >= 0) {
    waiting_.Erase(leaf, QueuedOf(it->first, it->second));
    fresh_.Erase(leaf, QueuedOf(it->first, it->second));
  }
  requests_.Release(it->second.request);
  gangs_.erase(it);
}

Resources QueueBook::Sum(const std::vector<Amounts>& amounts) const {
  Resources sum;
  for (const Amounts& one : amounts) sum += ToResources(one);
  return sum;
}

Resources QueueBook::Capacity(const std::vector<Amounts>& free) const {
  Resources capacity = usage_.used(QueueTree::kRoot);
  capacity += Sum(free);
  for (int r = 0; r < kMaxResources; ++r) capacity[r] = std::min(capacity[r], kMaxAmount);
  return capacity;
}

QueueOrder QueueBook::Order(bool fresh_only, const Resources& capacity) const {
  return QueueOrder({usage_, fresh_only ? fresh_ : waiting_, requests_, capacity,
                     histories_.At(now_.wall), kMaxHistoryPermille});
}

const std::string& QueueBook::UidOf(const QueuedGang& gang) const {
  return gangs_.at(gang.submit_order).uid;
}

absl::optional<std::string> QueueBook::Refusal(const QueueOrder& order,
                                               const Resources& capacity) const {
  return Refusal(order.usage(), capacity, order.next_leaf(), order.next_request());
}

absl::optional<std::string> QueueBook::Refusal(const JobEntry& job,
                                               const Resources& capacity) const {
  const int leaf = LeafOf(QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return absl::nullopt;
  return Refusal(usage_, capacity, leaf, ToResources(AmountsOf(job)));
}

QueueBook::RateWait QueueBook::WaitOf(const RateRefusal& refusal, absl::string_view does,
                                      absl::optional<Rate> QueueNode::* rate) const {
  const QueueNode& node = tree_.node(refusal.node);
  const Rate& limit = *(node.*rate);
  RateWait wait;
  wait.queue = absl::StrCat("queues/", node.id);
  wait.words = absl::StrCat(wait.queue, " ", does, " at most ", limit.count, " Jobs in ",
                            absl::FormatDuration(limit.period));
  wait.available = refusal.available;
  return wait;
}

absl::optional<QueueBook::RateWait> QueueBook::TakeSubmission(const std::string& queue) {
  const int leaf = LeafOf(QueueIdOf(queue));
  if (leaf < 0) return absl::nullopt;
  const absl::optional<RateRefusal> refusal = submissions_.Take(leaf, 1, now_.boot);
  if (!refusal.has_value()) return absl::nullopt;
  return WaitOf(*refusal, "takes", &QueueNode::submit_rate);
}

absl::optional<QueueBook::RateWait> QueueBook::StartWait(const JobEntry& job) const {
  const int leaf = LeafOf(QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return absl::nullopt;
  const absl::optional<RateRefusal> refusal = starts_.Check(leaf, 1, now_.boot);
  if (!refusal.has_value()) return absl::nullopt;
  return WaitOf(*refusal, "starts", &QueueNode::start_rate);
}

void QueueBook::TakeStart(const JobEntry& job) {
  const int leaf = LeafOf(QueueIdOf(job.spec.spec().queue()));
  if (leaf >= 0) starts_.Take(leaf, 1, now_.boot);
}

std::vector<QueueVictims::Gang> QueueBook::GangsOf(
    const std::vector<std::pair<std::string, int32_t>>& held) const {
  std::vector<QueueVictims::Gang> gangs(held.size());
  for (size_t i = 0; i < held.size(); ++i) {
    gangs[i].priority = held[i].second;
    auto live = live_.find(held[i].first);
    if (live == live_.end()) continue;
    gangs[i].leaf = LeafOf(live->second.queue);
    gangs[i].amounts = ToResources(live->second.amounts);
  }
  return gangs;
}

QueueVictims QueueBook::VictimsFor(const QueueOrder& order, const Resources& capacity,
                                   const Resources& free,
                                   const std::vector<QueueVictims::Gang>& held,
                                   const std::vector<QueueVictims::Gang>& ended) const {
  TreeUsage usage = order.usage();
  for (const QueueVictims::Gang& gang : ended) usage.Remove(gang.leaf, gang.amounts);
  const QueueVictims::Gang claimant = {order.next_leaf(), order.next_gang().priority,
                                       order.next_request()};
  return QueueVictims(usage, capacity, free, claimant, held);
}

absl::optional<std::string> QueueBook::Refusal(const TreeUsage& usage, const Resources& capacity,
                                               int leaf, const Resources& request) const {
  const absl::optional<QuotaRefusal> refusal = CheckStart(usage, capacity, leaf, request);
  if (!refusal.has_value() || refusal->reason == QuotaRefusal::Reason::kCapacity ||
      refusal->reason == QuotaRefusal::Reason::kUnknownResource) {
    return absl::nullopt;
  }
  const int r = refusal->resource;
  if (r < 0) return Describe(tree_, *refusal);
  return absl::StrCat(tree_.Describe(refusal->node), " may have ", refusal->limit, " of ",
                      tree_.resources().name(r), "; the Job needs ", request[r],
                      " beside what runs there or is kept for others");
}

}  // namespace capstan::scheduler
