#include "services/scheduler/core/bench_core.h"

#include <cstddef>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/status/status_macros.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Observations;
using capstan::type::v1::TaskObservation;

std::vector<store::KeyValue> BenchCore::RecordsOf(const Model& model) {
  std::vector<store::KeyValue> records;
  for (auto& [key, value] : AllRecords(model)) {
    store::KeyValue& record = records.emplace_back();
    record.key = key;
    record.value = std::move(value);
  }
  return records;
}

absl::Status BenchCore::Start(const CoreConfig& config, const std::vector<store::KeyValue>& records,
                              int nodes) {
  config_ = config;
  CAPSTAN_ASSIGN_OR_RETURN(core_, SchedulerCore::Load(config_, records));
  jobs_ = static_cast<int64_t>(model().jobs.size());
  LeadershipGained gained;
  gained.token.set_store_incarnation(1);
  gained.token.set_leader_epoch(1);
  Apply(gained);
  HelloReceived hello;
  hello.session = 1;
  hello.hello.set_cluster(bench_fleet::kCluster);
  hello.hello.set_incarnation(1);
  Apply(hello);
  Report([this, nodes](Observations* all) {
    all->set_sync_complete(true);
    for (int n = 0; n < nodes; ++n) *all->add_nodes() = bench_fleet::NodeReport(n);
    model().jobs.ForEachLive([all](absl::string_view, const JobEntry& job) {
      for (size_t rank = 0; rank < job.gang->tasks.size(); ++rank) {
        AddTaskOf(job, static_cast<int>(rank), all)->set_state(TaskObservation::STATE_RUNNING);
      }
    });
  });
  return absl::OkStatus();
}

void BenchCore::Apply(const Event& event) {
  const int64_t rounds_before = core_->rounds();
  const absl::Duration begin = stopwatch_();
  const Step step = core_->Apply(event, now_);
  const absl::Duration took = stopwatch_() - begin;
  if (const auto* const said = std::get_if<ObservationsReceived>(&event)) {
    generations_.Said(said->observations);
  }
  for (const Effect& effect : step.after) {
    const auto* const down = std::get_if<SendDown>(&effect);
    if (down != nullptr && down->message.has_desired()) generations_.Told(down->message.desired());
  }
  on_step_(event, step, took, core_->rounds() != rounds_before);
}

absl::Status BenchCore::Check() const {
  CAPSTAN_RETURN_IF_ERROR(generations_.status());
  return CheckPlacements(model());
}

void BenchCore::Submit(JobSpec spec) {
  CreateJob create;
  create.call = ++calls_;
  create.project = "projects/p";
  create.uid = absl::StrCat("uid-", ++jobs_);
  create.job_id = create.uid;
  create.submitter = "person-1";
  create.spec = std::move(spec);
  ApplyDefaults("projects/p", config_, &create.spec);
  Apply(create);
}

void BenchCore::Report(const std::function<void(Observations*)>& add) {
  ObservationsReceived report;
  report.session = 1;
  report.observations.set_journal_sequence(++journal_);
  add(&report.observations);
  Apply(report);
}

void BenchCore::MoveTo(BootTime boot) {
  now_.wall += boot - now_.boot;
  now_.boot = boot;
}

TaskObservation* AddTaskOf(const JobEntry& job, int rank, Observations* observations) {
  TaskObservation* const task = observations->add_tasks();
  *task->mutable_key() = KeyOf(job, rank);
  task->set_node(job.gang->nodes[rank]);
  return task;
}

}  // namespace capstan::scheduler
