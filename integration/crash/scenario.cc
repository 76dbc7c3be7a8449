#include "integration/crash/scenario.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/crash_point/points.h"
#include "libs/random/random.h"

namespace capstan::integration {
namespace {

// In one run of each platform at least.
constexpr uint64_t kHostLost = 2;
constexpr uint64_t kHostFrozen = 3;

constexpr absl::string_view kParts[] = {"credentials",     "telemetry", "data_loader", "scheduler",
                                        "cluster_manager", "executor",  "node_agent"};
// Those whose store changes in the course of a Job.
constexpr absl::string_view kBusyStores[] = {"scheduler", "executor", "node_agent", "data_loader",
                                             "credentials"};

template <size_t kSize>
std::string OneOf(const absl::string_view (&choices)[kSize], Random& random) {
  return std::string(choices[random.Below(kSize)]);
}

Moment AnyMoment(Random& random, Moment first) {
  return static_cast<Moment>(
      random.Between(static_cast<int64_t>(first), static_cast<int64_t>(Moment::kEnding)));
}

void DrawAction(Fault& fault, Random& random) {
  fault.action = random.OneIn(3) ? CrashAction::kStop : CrashAction::kKill;
  if (fault.action == CrashAction::kKill) return;
  // Some outlive fence_after and the margin behind it.
  fault.stop_for = random.OneIn(4)
                       ? random.Between(2 * kShortFence, 3 * kShortFence)
                       : random.Between(absl::Milliseconds(200), absl::Milliseconds(1500));
}

Fault PointFault(absl::string_view point, Random& random) {
  Fault fault;
  fault.kind = Fault::Kind::kPoint;
  fault.point = std::string(point);
  const std::string where = fault.point.substr(0, fault.point.find('.'));
  const bool store = where == "store" || where == "etcd";
  fault.part = store                                     ? OneOf(kBusyStores, random)
               : where == "content"                      ? "data_loader"
               : where == "events"                       ? "scheduler"
               : where == "audit" || where == "identity" ? std::string(kAnyCrashPart)
                                                         : where;
  // A store commits often; much of the rest happens once in a Job.
  fault.nth = store ? static_cast<int>(random.Between(1, 12)) : random.OneIn(3) ? 2 : 1;
  fault.moment = random.OneIn(3) ? AnyMoment(random, Moment::kSubmitted) : Moment::kBeforeSubmit;
  DrawAction(fault, random);
  return fault;
}

Fault HostFault(CrashAction action, Random& random) {
  Fault fault;
  fault.kind = Fault::Kind::kHost;
  do {
    DrawAction(fault, random);
  } while (fault.action != action);
  fault.moment = AnyMoment(random, Moment::kStarted);
  return fault;
}

Fault OtherFault(Random& random, int ranks) {
  Fault fault;
  DrawAction(fault, random);
  const uint64_t kind = random.Below(11);
  if (kind == 10) return HostFault(fault.action, random);
  if (kind < 2) {
    fault.kind = Fault::Kind::kProcess;
    fault.part = "shim";
    fault.rank = static_cast<int>(random.Below(static_cast<uint64_t>(ranks)));
    fault.moment = AnyMoment(random, Moment::kStarted);
    return fault;
  }
  fault.moment = AnyMoment(random, Moment::kBeforeSubmit);
  if (kind < 6) {
    fault.kind = Fault::Kind::kProcess;
    fault.part = OneOf(kParts, random);
  } else if (kind < 8) {
    fault.kind = Fault::Kind::kAllParts;
  } else {
    fault.kind = kind == 8 ? Fault::Kind::kSupervisor : Fault::Kind::kEverything;
    fault.action = CrashAction::kKill;
  }
  return fault;
}

absl::string_view MomentName(Moment moment) {
  switch (moment) {
    case Moment::kBeforeSubmit:
      return "before the submit";
    case Moment::kSubmitted:
      return "once submitted";
    case Moment::kStarted:
      return "once every rank runs";
    case Moment::kCommitted:
      return "once a checkpoint is committed";
    case Moment::kEnding:
      return "once a rank has ended";
  }
  return "";
}

}  // namespace

std::string Fault::Describe() const {
  std::string text = action == CrashAction::kStop
                         ? absl::StrCat("stop for ", absl::FormatDuration(stop_for), " ")
                         : "kill ";
  switch (kind) {
    case Kind::kPoint:
      absl::StrAppend(&text, part, " at ", point, " (time ", nth, ")");
      break;
    case Kind::kProcess:
      absl::StrAppend(&text, part);
      if (part == "shim") absl::StrAppend(&text, " of rank ", rank);
      break;
    case Kind::kAllParts:
      absl::StrAppend(&text, "all parts");
      break;
    case Kind::kSupervisor:
      absl::StrAppend(&text, "the supervisor");
      break;
    case Kind::kEverything:
      absl::StrAppend(&text, "all parts and the supervisor");
      break;
    case Kind::kHost:
      absl::StrAppend(&text, "all parts, the supervisor and the shims");
      if (action == CrashAction::kKill) absl::StrAppend(&text, " with their Tasks");
      break;
  }
  return absl::StrCat(text, ", ", MomentName(moment));
}

std::string Scenario::Describe() const {
  std::string text =
      absl::StrCat("seed ", seed, ": ", ranks, " ranks", short_fence ? ", short fence" : "");
  for (const Fault& fault : faults) absl::StrAppend(&text, "; ", fault.Describe());
  return text;
}

Scenario MakeScenario(uint64_t seed, StoreKind store) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.short_fence = random.OneIn(2);
  scenario.ranks = static_cast<int>(random.Between(2, 3));
  scenario.faults.push_back(
      store == StoreKind::kEtcd
          ? PointFault(OneOf(crash::kEtcdPoints, random), random)
          : PointFault(crash::kAllPoints[seed % std::size(crash::kAllPoints)], random));
  if (seed % kSeedsOfAPlatform == 1) {
    Fault first = PointFault(OneOf(crash::kFirstStartPoints, random), random);
    first.nth = 1;
    first.moment = Moment::kBeforeSubmit;
    scenario.faults.push_back(std::move(first));
  }
  if (seed % kSeedsOfAPlatform == kHostLost) {
    scenario.faults.push_back(HostFault(CrashAction::kKill, random));
  }
  if (seed % kSeedsOfAPlatform == kHostFrozen) {
    scenario.faults.push_back(HostFault(CrashAction::kStop, random));
  }
  const uint64_t more = random.Below(3);
  for (uint64_t i = 0; i < more; ++i) {
    const absl::string_view point = crash::kAllPoints[random.Below(std::size(crash::kAllPoints))];
    scenario.faults.push_back(random.OneIn(2) ? PointFault(point, random)
                                              : OtherFault(random, scenario.ranks));
  }
  return scenario;
}

}  // namespace capstan::integration
