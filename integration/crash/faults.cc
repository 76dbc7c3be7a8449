#include "integration/crash/faults.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/crash/host.h"
#include "libs/crash_point/crash_plan.h"
#include "libs/safe_path/folder_names.h"
#include "libs/time/system_clock.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::integration {
namespace {

constexpr absl::Duration kDeadWithin = absl::Seconds(10);

BootTime BootNow() { return SystemClock().Read().boot; }

}  // namespace

Faults::Faults(TestPlatform* platform, std::string plan_folder, const Scenario* scenario,
               const std::string* job)
    : platform_(platform), plan_folder_(std::move(plan_folder)), scenario_(scenario), job_(job) {}

void Faults::Drive(bool submitted) {
  const WitnessLog log = platform_->Witnesses();
  for (size_t i = 0; i < scenario_->faults.size(); ++i) {
    const Fault& fault = scenario_->faults[i];
    if (begun_.count(i) > 0 || !HasCome(fault.moment, log, submitted)) continue;
    if (fault.kind == Fault::Kind::kPoint) {
      LayOut(i, fault);
    } else if (!Make(fault, log)) {
      continue;
    }
    begun_.insert(i);
  }
  ReadClaims();
  const BootTime now = BootNow();
  for (auto it = stopped_.begin(); it != stopped_.end();) {
    if (it->first > now) {
      ++it;
      continue;
    }
    dev::SignalProcess(it->second, SIGCONT);
    it = stopped_.erase(it);
  }
}

void Faults::End() {
  unlink((plan_folder_ + "/plan").c_str());
  // A process may have claimed its fault just now.
  ReadClaims();
  // Claimed is not yet carried out.
  for (const dev::ProcessId& process : killed_) {
    EXPECT_TRUE(dev::WaitForEnd(process, kDeadWithin)) << process.pid << " did not kill itself";
  }
  for (const auto& [until, process] : stopped_) dev::SignalProcess(process, SIGCONT);
  for (const dev::PartSpec& part : dev::AllParts()) platform_->Signal(part.name, SIGCONT);
}

bool Faults::HasCome(Moment moment, const WitnessLog& log, bool submitted) const {
  switch (moment) {
    case Moment::kBeforeSubmit:
      return true;
    case Moment::kSubmitted:
      return submitted;
    case Moment::kStarted:
      return log.last_generation() > 0 &&
             log.Count("start", log.last_generation()) == scenario_->ranks;
    case Moment::kCommitted:
      return log.Count("commit") > 0;
    case Moment::kEnding:
      return log.Count("end") > 0;
  }
  return false;
}

bool Faults::Make(const Fault& fault, const WitnessLog& log) {
  std::vector<absl::optional<dev::ProcessId>> processes;
  const auto parts = [&] {
    for (const dev::PartSpec& part : dev::AllParts()) {
      processes.push_back(platform_->Part(part.name));
    }
  };
  switch (fault.kind) {
    case Fault::Kind::kPoint:
      break;
    case Fault::Kind::kProcess:
      if (fault.part == "shim") {
        const auto task = platform_->FindTask(*job_, log.last_generation(), fault.rank);
        if (task.has_value()) processes.emplace_back(task->shim);
      } else {
        processes.push_back(platform_->Part(fault.part));
      }
      break;
    case Fault::Kind::kAllParts:
      parts();
      break;
    case Fault::Kind::kSupervisor:
      processes.push_back(platform_->Part("supervisor"));
      break;
    case Fault::Kind::kEverything:
      processes.push_back(platform_->Part("supervisor"));
      parts();
      break;
    case Fault::Kind::kHost: {
      if (fault.action == CrashAction::kKill) return LoseHost();
      // Those who start processes first.
      processes.push_back(platform_->Part("supervisor"));
      parts();
      const std::vector<dev::ProcessId> shims = ShimsOf(*platform_);
      if (shims.empty()) return false;
      processes.insert(processes.end(), shims.begin(), shims.end());
      ++hosts_frozen_;
      break;
    }
  }
  return Hit(processes, fault);
}

bool Faults::LoseHost() {
  if (ShimsOf(*platform_).empty()) return false;
  // What one of them has started just now is found the next time.
  for (std::vector<dev::ProcessId> left; !(left = ProcessesOfHost(*platform_)).empty();) {
    for (const dev::ProcessId& process : left) dev::SignalProcess(process, SIGKILL);
    for (const dev::ProcessId& process : left) {
      EXPECT_TRUE(dev::WaitForEnd(process, kDeadWithin)) << process.pid << " lives on";
    }
  }
  const WitnessLog log = platform_->Witnesses();
  const int64_t newest = log.last_generation();
  if (log.Count("end", newest) < scenario_->ranks) lost_generation_ = newest;
  ++hosts_lost_;
  ++made_;
  return true;
}

bool Faults::Hit(const std::vector<absl::optional<dev::ProcessId>>& processes, const Fault& fault) {
  int hit = 0;
  const BootTime until = BootNow() + fault.stop_for;
  for (const absl::optional<dev::ProcessId>& process : processes) {
    if (!process.has_value()) continue;
    ++hit;
    if (fault.action == CrashAction::kKill) {
      dev::SignalProcess(*process, SIGKILL);
    } else {
      dev::SignalProcess(*process, SIGSTOP);
      stopped_.emplace_back(until, *process);
    }
  }
  if (hit > 0) ++made_;
  return hit > 0;
}

void Faults::LayOut(size_t number, const Fault& fault) {
  absl::StrAppend(&plan_, number, " ", fault.part, " ", fault.point, " ", fault.nth, " ",
                  fault.action == CrashAction::kStop ? "stop" : "kill", "\n");
  const std::string path = plan_folder_ + "/plan";
  std::ofstream(path + ".new") << plan_ << std::flush;
  EXPECT_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
}

void Faults::ReadClaims() {
  for (const std::string& name : FolderNames(plan_folder_ + "/claimed")) {
    if (claimed_.count(name) > 0) continue;
    pid_t pid = 0;
    size_t number = 0;
    if (!(std::ifstream(absl::StrCat(plan_folder_, "/claimed/", name)) >> pid) ||
        !absl::SimpleAtoi(name, &number) || number >= scenario_->faults.size()) {
      continue;
    }
    claimed_.insert(name);
    ++made_;
    const Fault& fault = scenario_->faults[number];
    const auto process = dev::FindProcess(pid);
    if (!process.has_value()) continue;
    if (fault.action == CrashAction::kStop) {
      stopped_.emplace_back(BootNow() + fault.stop_for, *process);
    } else {
      killed_.push_back(*process);
    }
  }
}

}  // namespace capstan::integration
