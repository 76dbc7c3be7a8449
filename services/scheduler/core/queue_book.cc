#include "services/scheduler/core/queue_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/quota/admission.h"
#include "services/scheduler/core/retry.h"

namespace capstan::scheduler {
namespace {

std::string QueueIdOf(absl::string_view name) {
  return std::string(absl::StripPrefix(name, "queues/"));
}

// Of what the fleet has, which is the placement's question.
bool IsOfRoom(const QuotaRefusal& refusal) {
  return refusal.reason == QuotaRefusal::Reason::kCapacity ||
         refusal.reason == QuotaRefusal::Reason::kUnknownResource;
}

Amounts LiveAmounts(const JobEntry& job) {
  Amounts amounts;
  if (job.state.making_room_size() > 0) return LeastOf(job);
  const bool comes_back = IsGrowing(job) || IsReturning(job) || IsMoving(job);
  const bool returns = comes_back || ReturnsAtOnce(job);
  if ((!job.live() && !returns) || IsMakingWay(*job.gang)) return amounts;
  if (IsShrinking(job)) return LeastOf(job);
  int rank = 0;
  for (int g = 0; g < job.spec.spec().task_groups_size(); ++g) {
    const int size = SizeOf(job, g);
    int64_t live = 0;
    for (int i = 0; i < size; ++i) live += returns || !job.gang->ended(rank++) ? 1 : 0;
    if (live > 0) amounts.Add(Amounts::From(job.spec.spec().task_groups(g).resources()), live);
  }
  if (!comes_back) return amounts;
  for (const auto& addition : job.gang->head.additions()) {
    amounts.Add(Amounts::From(job.spec.spec().task_groups(addition.group()).resources()),
                addition.count());
  }
  return amounts;
}

}  // namespace

Amounts LeastOf(const JobEntry& job) {
  Amounts amounts;
  const auto& groups = job.spec.spec().task_groups();
  const std::vector<int> least = MinSizes(job.spec.spec());
  for (int g = 0; g < groups.size(); ++g) {
    if (least[g] > 0) amounts.Add(Amounts::From(groups[g].resources()), least[g]);
  }
  return amounts;
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
  tree_ = QueueTree(specs, CountedResources(specs, accelerators_, histories));
  submissions_ = RateGate(tree_, RateGate::Kind::kSubmit, now_.boot, submissions);
  starts_ = RateGate(tree_, RateGate::Kind::kStart, now_.boot, starts);
  usage_ = TreeUsage(tree_);
  waiting_ = GangQueues(tree_);
  requests_ = RequestClasses();
  for (Kind& kind : kinds_) {
    if (kind.gangs > 0) Bind(&kind);
  }
  for (const auto& [sequence, gang] : gangs_) Insert(sequence, gang);
  for (const auto& [uid, live] : live_) {
    const int leaf = LeafOf(tree_, live.queue);
    if (leaf >= 0) usage_.Add(leaf, ResourcesOf(tree_, live.amounts));
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

void QueueBook::SetLive(const JobEntry& job) {
  auto known = live_.find(job.uid());
  Amounts amounts = LiveAmounts(job);
  if (known == live_.end() ? amounts == Amounts() : known->second.amounts == amounts) return;
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf >= 0) unsettled_.insert(leaf);
  if (known != live_.end()) {
    if (leaf >= 0) usage_.Remove(leaf, ResourcesOf(tree_, known->second.amounts));
    live_.erase(known);
  }
  if (amounts == Amounts()) return;
  if (leaf >= 0) usage_.Add(leaf, ResourcesOf(tree_, amounts));
  live_[job.uid()] = {QueueIdOf(job.spec.spec().queue()), std::move(amounts)};
}

QueuedGang QueueBook::QueuedOf(int64_t sequence, const Gang& gang) const {
  const Kind& kind = kinds_[gang.kind];
  return {{kind.priority, kind.request, gang.kind, gang.fresh}, sequence};
}

void QueueBook::Insert(int64_t sequence, const Gang& gang) {
  const int leaf = kinds_[gang.kind].leaf;
  if (leaf >= 0) waiting_.Insert(leaf, QueuedOf(sequence, gang));
}

void QueueBook::Erase(int64_t sequence, const Gang& gang) {
  const int leaf = kinds_[gang.kind].leaf;
  if (leaf >= 0) waiting_.Erase(leaf, QueuedOf(sequence, gang));
}

void QueueBook::Bind(Kind* kind) {
  kind->leaf = LeafOf(tree_, kind->queue);
  kind->request = requests_.Acquire(ResourcesOf(tree_, kind->amounts));
}

bool SaysNoRoom(absl::string_view reason) {
  return reason == "INSUFFICIENT_RESOURCES" || reason == "PREEMPTED" || reason == "MAINTENANCE";
}

uint32_t QueueBook::AcquireKind(const JobEntry& job) {
  const GangRequest request = GangRequest::From(job);
  const std::string& reason = job.state.reason();
  // Of these each says which limit, rate or Queue it is.
  const bool in_words = absl::StartsWith(reason, "QUEUE_");
  const std::string queue = QueueIdOf(job.spec.spec().queue());
  const int32_t priority = job.spec.spec().priority();
  std::string shape = request.Shape();
  std::string key = absl::StrCat(queue, "|", priority, "|", absl::FormatDuration(request.duration),
                                 "|", reason, "|", in_words ? job.state.message() : "", "|", shape);
  const auto [known, added] = kind_ids_.try_emplace(key, 0);
  if (added) {
    if (free_kinds_.empty()) {
      free_kinds_.push_back(static_cast<uint32_t>(kinds_.size()));
      kinds_.emplace_back();
    }
    known->second = free_kinds_.back();
    free_kinds_.pop_back();
    Kind& kind = kinds_[known->second];
    kind.key = std::move(key);
    kind.queue = queue;
    kind.priority = priority;
    kind.amounts = LeastOf(job);
    kind.waits_for_limit = reason == "QUEUE_LIMIT";
    auto& [number, kinds] = shapes_[shape];
    if (++kinds == 1) number = ++last_shape_;
    kind.terms = {++last_kind_, number, SaysNoRoom(reason), AsksForMig(job.spec.spec())};
    kind.shape = std::move(shape);
    scheduler::AddLabelKeys(job.spec.spec(), &kind.label_keys);
    for (const std::string& asked : kind.label_keys) ++label_keys_[asked];
    Bind(&kind);
  }
  ++kinds_[known->second].gangs;
  return known->second;
}

void QueueBook::ReleaseKind(uint32_t id) {
  Kind& kind = kinds_[id];
  if (--kind.gangs > 0) return;
  requests_.Release(kind.request);
  if (const auto shape = shapes_.find(kind.shape); --shape->second.second == 0) {
    shapes_.erase(shape);
  }
  for (const std::string& asked : kind.label_keys) {
    const auto count = label_keys_.find(asked);
    if (--count->second == 0) label_keys_.erase(count);
  }
  kind_ids_.erase(kind.key);
  kind = Kind();
  free_kinds_.push_back(id);
}

void QueueBook::AddLabelKeys(std::set<std::string>* keys) const {
  for (const auto& [key, kinds] : label_keys_) keys->insert(key);
}

uint32_t QueueBook::AddWaiting(const JobEntry& job, bool fresh) {
  RemoveWaiting(job);
  Gang& gang = gangs_[job.spec.submit_sequence()];
  gang.identity = job.identity;
  gang.kind = AcquireKind(job);
  gang.fresh = fresh;
  Insert(job.spec.submit_sequence(), gang);
  return gang.kind;
}

void QueueBook::AddWaiting(SharedBytes identity, int64_t submit_sequence, uint32_t kind) {
  Gang& gang = gangs_[submit_sequence];
  gang.identity = std::move(identity);
  gang.kind = kind;
  gang.fresh = false;
  ++kinds_[kind].gangs;
  Insert(submit_sequence, gang);
}

void QueueBook::SetTried(const JobEntry& job) {
  auto it = gangs_.find(job.spec.submit_sequence());
  if (it != gangs_.end()) SetKind(job, /*fresh=*/false, &it->second);
}

void QueueBook::SetChanged(const JobEntry& job) {
  auto it = gangs_.find(job.spec.submit_sequence());
  if (it != gangs_.end()) SetKind(job, it->second.fresh, &it->second);
}

void QueueBook::SetKind(const JobEntry& job, bool fresh, Gang* gang) {
  const uint32_t kind = AcquireKind(job);
  Erase(job.spec.submit_sequence(), *gang);
  ReleaseKind(gang->kind);
  gang->kind = kind;
  gang->fresh = fresh;
  Insert(job.spec.submit_sequence(), *gang);
}

void QueueBook::RemoveWaiting(const JobEntry& job) {
  auto it = gangs_.find(job.spec.submit_sequence());
  if (it == gangs_.end()) return;
  Erase(it->first, it->second);
  ReleaseKind(it->second.kind);
  gangs_.erase(it);
}

bool QueueBook::IsOutranked(const JobEntry& job) const {
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return false;
  for (const auto& [kind, gangs] : waiting_.kinds(leaf)) {
    if (kind.priority <= job.spec.spec().priority()) return false;
    if (!kinds_[kind.id].waits_for_limit) return true;
  }
  return false;
}

bool QueueBook::IsPrecededByFresh(const JobEntry& job) const {
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return false;
  const int32_t priority = job.spec.spec().priority();
  for (const auto& [kind, gangs] : waiting_.kinds(leaf)) {
    if (kind.priority < priority) return false;
    if (!kind.fresh) continue;
    if (kind.priority > priority || *gangs.begin() < job.spec.submit_sequence()) return true;
  }
  return false;
}

bool QueueBook::AnyOutside(const JobEntry& job) const {
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  return gangs_.size() > (leaf < 0 ? 0 : waiting_.size(leaf));
}

Resources QueueBook::Sum(const std::vector<Amounts>& amounts) const {
  Resources sum;
  for (const Amounts& one : amounts) sum += ResourcesOf(tree_, one);
  return sum;
}

Resources QueueBook::Capacity(const std::vector<Amounts>& free) const {
  Resources capacity = usage_.used(QueueTree::kRoot);
  capacity += Sum(free);
  for (int r = 0; r < kMaxResources; ++r) capacity[r] = std::min(capacity[r], kMaxAmount);
  return capacity;
}

QueueOrder QueueBook::Order(bool fresh_only, const Resources& capacity) const {
  return QueueOrder({usage_, waiting_, requests_, capacity, histories_.At(now_.wall),
                     kMaxHistoryPermille, fresh_only});
}

std::string QueueBook::UidOf(const QueuedGang& gang) const {
  return std::string(IdentityUid(gangs_.at(gang.submit_order).identity));
}

absl::optional<QueueBook::LimitWait> QueueBook::Refusal(const QueueOrder& order,
                                                        const Resources& capacity) const {
  return Refusal(order.usage(), capacity, order.next_leaf(), order.next_request());
}

absl::optional<QueueBook::LimitWait> QueueBook::Refusal(const JobEntry& job,
                                                        const Resources& capacity) const {
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return absl::nullopt;
  return Refusal(usage_, capacity, leaf, ResourcesOf(tree_, LeastOf(job)));
}

bool QueueBook::MayUse(const QueueOrder& order, const Resources& capacity,
                       const Amounts& more) const {
  const Resources request = order.next_request() + ResourcesOf(tree_, more);
  return !Refusal(order.usage(), capacity, order.next_leaf(), request).has_value();
}

bool QueueBook::MayUse(const JobEntry& job, const Resources& capacity,
                       const Amounts& amounts) const {
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  return leaf < 0 || !Refusal(usage_, capacity, leaf, ResourcesOf(tree_, amounts)).has_value();
}

bool QueueBook::MayGrow(const JobEntry& job, const Resources& capacity, const Amounts& more) const {
  if (!MayUse(job, capacity, more)) return false;
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return true;
  const Resources request = ResourcesOf(tree_, more);
  for (int r = 0; r < tree_.resource_count(); ++r) {
    if (request[r] == 0 || IsGuaranteed(leaf, r, request[r])) continue;
    for (int other = 1; other < tree_.size(); ++other) {
      if (other != leaf && tree_.leaf(other) && AsksForGuarantee(other, leaf, r)) return false;
    }
  }
  return true;
}

bool QueueBook::IsGuaranteed(int leaf, int r, int64_t amount) const {
  for (int i = leaf; i > QueueTree::kRoot; i = tree_.node(i).parent) {
    const int64_t guarantee = tree_.node(i).guarantee[r];
    if (guarantee > 0 && usage_.used(i)[r] + amount <= guarantee) return true;
  }
  return false;
}

bool QueueBook::AsksForGuarantee(int leaf, int other, int r) const {
  const QueueStops& stops = tree_.node(leaf).stops;
  if (stops.hold || stops.drain) return false;
  for (const auto& [kind, gangs] : waiting_.kinds(leaf)) {
    const int64_t asked = requests_.Get(kind.request)[r];
    if (asked == 0) continue;
    for (int i = leaf; i > QueueTree::kRoot && !tree_.contains(i, other);
         i = tree_.node(i).parent) {
      const int64_t guarantee = tree_.node(i).guarantee[r];
      if (guarantee > 0 && usage_.used(i)[r] + asked <= guarantee) return true;
    }
  }
  return false;
}

bool QueueBook::MayComeBack(const JobEntry& job) {
  const auto live = live_.find(job.uid());
  if (live == live_.end()) return true;
  const int leaf = LeafOf(tree_, live->second.queue);
  if (leaf < 0) return true;
  const Resources amounts = ResourcesOf(tree_, live->second.amounts);
  // Of the queues' limits alone: the fleet may be smaller than it was.
  Resources boundless;
  for (int r = 0; r < kMaxResources; ++r) boundless[r] = kNoBound;
  usage_.Remove(leaf, amounts);
  const bool may = FitsLimits(usage_, boundless, leaf, amounts);
  usage_.Add(leaf, amounts);
  return may;
}

Resources QueueBook::UseOf(const JobEntry& job) const {
  return ResourcesOf(tree_, LiveAmounts(job));
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
  const int leaf = LeafOf(tree_, QueueIdOf(queue));
  if (leaf < 0) return absl::nullopt;
  const absl::optional<RateRefusal> refusal = submissions_.Take(leaf, 1, now_.boot);
  if (!refusal.has_value()) return absl::nullopt;
  return WaitOf(*refusal, "takes", &QueueNode::submit_rate);
}

absl::optional<QueueBook::RateWait> QueueBook::StartWait(const JobEntry& job) const {
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return absl::nullopt;
  const absl::optional<RateRefusal> refusal = starts_.Check(leaf, 1, now_.boot);
  if (!refusal.has_value()) return absl::nullopt;
  return WaitOf(*refusal, "starts", &QueueNode::start_rate);
}

bool QueueBook::MayStartByRate(const QueueOrder& order) const {
  return !starts_.Check(order.next_leaf(), 1, now_.boot).has_value();
}

void QueueBook::TakeStart(const JobEntry& job) {
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf >= 0) starts_.Take(leaf, 1, now_.boot);
}

std::vector<QueueVictims::Gang> QueueBook::GangsOf(const std::vector<HeldGang>& held) const {
  std::vector<QueueVictims::Gang> gangs(held.size());
  for (size_t i = 0; i < held.size(); ++i) {
    gangs[i].priority = held[i].priority;
    auto live = live_.find(held[i].uid);
    if (live == live_.end()) continue;
    gangs[i].leaf = LeafOf(tree_, live->second.queue);
    gangs[i].amounts = ResourcesOf(tree_, live->second.amounts);
    if (!held[i].is_spare) continue;
    if (held[i].ending) {
      // It counts as using nothing any more.
      gangs[i].leaf = -1;
      continue;
    }
    std::vector<Amounts> amounts;
    for (const auto& [at, share] : held[i].shares) amounts.push_back(share);
    gangs[i].amounts = Sum(amounts);
    gangs[i - 1].amounts -= gangs[i].amounts;
    gangs[i - 1].spare = static_cast<int>(i);
  }
  return gangs;
}

QueueVictims QueueBook::VictimsFor(const QueueOrder& order, int32_t standing,
                                   const Resources& capacity, const Resources& free,
                                   const std::vector<QueueVictims::Gang>& held,
                                   const std::vector<QueueVictims::Gang>& ended) const {
  TreeUsage usage = order.usage();
  for (const QueueVictims::Gang& gang : ended) usage.Remove(gang.leaf, gang.amounts);
  const QueueVictims::Gang claimant = {order.next_leaf(), standing, order.next_request()};
  return QueueVictims(usage, capacity, free, claimant, held);
}

absl::optional<QueueVictims::Gang> QueueBook::ClaimantOf(const JobEntry& job) const {
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return absl::nullopt;
  return QueueVictims::Gang{leaf, job.spec.spec().priority(), ResourcesOf(tree_, LeastOf(job))};
}

absl::optional<QueueBook::LimitWait> QueueBook::Refusal(const TreeUsage& usage,
                                                        const Resources& capacity, int leaf,
                                                        const Resources& request) const {
  const absl::optional<QuotaRefusal> refusal = CheckStart(usage, capacity, leaf, request);
  if (!refusal.has_value() || IsOfRoom(*refusal)) return absl::nullopt;
  return WaitOf(*refusal, request);
}

std::vector<QueueBook::LimitWait> QueueBook::Refusals(const JobEntry& job,
                                                      const Resources& capacity) const {
  std::vector<LimitWait> waits;
  const int leaf = LeafOf(tree_, QueueIdOf(job.spec.spec().queue()));
  if (leaf < 0) return waits;
  const Resources request = ResourcesOf(tree_, LeastOf(job));
  for (const QuotaRefusal& refusal : ExplainStart(usage_, capacity, leaf, request)) {
    if (!IsOfRoom(refusal)) waits.push_back(WaitOf(refusal, request));
  }
  return waits;
}

QueueBook::LimitWait QueueBook::WaitOf(const QuotaRefusal& refusal,
                                       const Resources& request) const {
  const int r = refusal.resource;
  LimitWait wait;
  // Claims only grow while gangs start, so what a queue below the root refuses stays refused.
  wait.lasts = refusal.node != QueueTree::kRoot;
  if (wait.lasts) wait.queue = absl::StrCat("queues/", tree_.node(refusal.node).id);
  if (r < 0) {
    wait.words = Describe(tree_, refusal);
    return wait;
  }
  wait.words = absl::StrCat(tree_.Describe(refusal.node), " may have ", refusal.limit, " of ",
                            tree_.resources().name(r), "; the Job needs ", request[r],
                            " beside what runs there or is kept for others");
  wait.resource = tree_.resources().name(r);
  wait.limit = refusal.limit;
  wait.in_use = refusal.found;
  wait.requested = refusal.needed;
  return wait;
}

}  // namespace capstan::scheduler
