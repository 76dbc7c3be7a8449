#include "services/scheduler/store_bench.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "libs/random/random.h"
#include "libs/status/status_macros.h"
#include "libs/store/leadership.h"
#include "libs/store/sqlite_store.h"
#include "libs/time/system_clock.h"
#include "services/scheduler/bench_executor.h"
#include "services/scheduler/bench_process.h"
#include "services/scheduler/bench_replica.h"
#include "services/scheduler/bench_store_records.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/counterfactuals.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/what_if.h"
#include "services/scheduler/simulations.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;

class StoreBench {
 public:
  StoreBench(const StoreBenchSizes& sizes, std::string folder)
      : sizes_(sizes), folder_(std::move(folder)), path_(folder_ + "/store.sqlite") {}

  absl::StatusOr<std::vector<Figure>> Run() {
    CAPSTAN_RETURN_IF_ERROR(Fill());
    Tell("filled");
    CAPSTAN_RETURN_IF_ERROR(Lead());
    for (int run = 0; run < sizes_.runs; ++run) CAPSTAN_RETURN_IF_ERROR(Restart());
    for (int run = 0; run < sizes_.runs; ++run) CAPSTAN_RETURN_IF_ERROR(TakeOver());
    return std::move(figures_);
  }

 private:
  std::string Name(absl::string_view metric) const { return BenchMetric(metric, sizes_.waiting); }
  std::string Conditions() const {
    return absl::StrCat(BenchRecordsInWords(sizes_.nodes, sizes_.waiting),
                        "; SQLite, flight recorder on; that core is the scheduler's strand's, all "
                        "other threads are on "
                        "the others");
  }
  BenchReplica::Options ReplicaOptions() const {
    BenchReplica::Options options;
    options.leadership_ttl = sizes_.leadership_ttl;
    options.recordings = folder_ + "/recordings";
    return options;
  }
  void Add(Figure figure) {
    Tell(absl::StrCat(figure.name, " ", figure.value));
    figures_.push_back(std::move(figure));
  }
  // What takes minutes says how far it is.
  void Tell(absl::string_view words) const {
    std::fprintf(stderr, "store_bench: %s after %.1f s\n", std::string(words).c_str(),
                 absl::ToDoubleSeconds(SystemClock().Read().boot - begun_));
  }
  double Seconds(const BenchProcess& opened, BootTime since) const {
    return absl::ToDoubleSeconds(opened.clock.Read().boot - since);
  }
  static BenchProcess::OpenStore SqliteAt(const std::string& path) {
    return [path](Strand* strand) { return store::SqliteStore::Open(path, strand); };
  }

  absl::Status Fill() {
    if (std::filesystem::exists(path_)) return absl::OkStatus();
    // Under another name until it is whole: one that was cut off is not taken for a filled one.
    const std::string part = path_ + ".part";
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(part + end);
    {
      BenchProcess opened(SqliteAt(part));
      CAPSTAN_RETURN_IF_ERROR(opened.status);
      CAPSTAN_RETURN_IF_ERROR(StoreBenchRecords(sizes_.nodes, sizes_.waiting,
                                                opened.clock.Read().wall, opened.store.get(),
                                                &opened.strand));
    }
    std::filesystem::rename(part, path_);
    return absl::OkStatus();
  }

  absl::Status Lead() {
    std::vector<RoundTimes> rounds;
    BenchProcess opened(SqliteAt(path_));
    BenchReplica::Options options = ReplicaOptions();
    options.on_round = [&rounds](const RoundTimes& round) { rounds.push_back(round); };
    CAPSTAN_RETURN_IF_ERROR(opened.Begin(std::move(options), &submissions_));
    Tell("leads");
    std::unique_ptr<BenchExecutor> executor;
    RunOn(&opened.strand, [&] {
      executor = std::make_unique<BenchExecutor>(&opened.strand, opened.replica->engine());
      executor->Join(sizes_.nodes);
    });
    // What it has reported is stored, and a round has followed.
    CAPSTAN_RETURN_IF_ERROR(opened.FirstAnswer(&submissions_));
    AwaitRecording(&opened);
    absl::Status status = Explain(&opened);
    if (status.ok()) status = Simulate(&opened);
    if (status.ok()) status = Load(&opened, executor.get(), &rounds);
    if (status.ok()) {
      RunOn(&opened.strand, [&] { status = CheckBenchRecords(opened.replica->view()->model()); });
    }
    RunOn(&opened.strand, [&] { executor.reset(); });
    return status;
  }

  // The flight recorder writes down once in a term what that began with.
  void AwaitRecording(BenchProcess* opened) {
    const BootTime begun = opened->clock.Read().boot;
    absl::Notification recorded;
    std::function<void()> look = [&] {
      if (!opened->replica->engine()->recording_state()) return recorded.Notify();
      opened->strand.RunAfter(absl::Milliseconds(50), look);
    };
    opened->strand.Post(look);
    recorded.WaitForNotification();
    Tell(absl::StrCat("what the term began with was recorded in ", Seconds(*opened, begun), " s"));
  }

  // As the handler of ExplainJob does.
  absl::Status Explain(BenchProcess* opened) {
    BenchReplica& replica = *opened->replica;
    std::vector<double> times;
    for (int i = 0; i < sizes_.explained; ++i) {
      const std::string name = BenchJobName(static_cast<int>(random_.Below(sizes_.waiting)));
      const BootTime begun = opened->clock.Read().boot;
      RunOn(&opened->strand, [&] {
        const CommittedView& view = *replica.view();
        const JobEntry* const job = view.model().FindJobByName(name);
        if (job == nullptr) return;
        const absl::Time now = opened->clock.Read().wall;
        const auto why = ExplainWhole(view.model(), view.usage(), *job,
                                      Standings(view.model(), view.usage(), {}, {}, now),
                                      replica.core_config(), now);
        if (why.summary().empty()) return;
        times.push_back(1000 * Seconds(*opened, begun));
      });
    }
    if (times.empty()) {
      return absl::FailedPreconditionError("no Job could be explained: other sizes were filled");
    }
    Add(Summarise(Name("explain_ms"), times, "ms", "lower", 50,
                  absl::StrCat("one at a time, nothing else asked; ", Conditions())));
    return absl::OkStatus();
  }

  // As the handler of SimulatePlacement does: with a simulation that is ready, and with none.
  absl::Status Simulate(BenchProcess* opened) {
    const SimulatePlacementRequest one = RequestOf(*opened, 1, 0);
    CAPSTAN_RETURN_IF_ERROR(SimulateReady(opened, one, ""));
    std::vector<double> unready;
    for (int run = 0; run < sizes_.runs; ++run) {
      CAPSTAN_RETURN_IF_ERROR(Ask(opened, one).status());
      CAPSTAN_ASSIGN_OR_RETURN(const Answer answer, Ask(opened, one));
      unready.push_back(answer.milliseconds);
    }
    Add(Summarise(Name("what_if_unready_ms"), unready, "ms", "lower", 0,
                  absl::StrCat("one Job, at once after another such; ", Conditions())));
    CAPSTAN_RETURN_IF_ERROR(
        SimulateReady(opened, RequestOf(*opened, kMaxSimulatedJobs, 0), ".jobs10"));
    return SimulateReady(opened, RequestOf(*opened, kMaxSimulatedJobs, kMaxSimulatedNodes),
                         ".jobs10.nodes100");
  }

  absl::Status SimulateReady(BenchProcess* opened, const SimulatePlacementRequest& request,
                             absl::string_view suffix) {
    constexpr int kTries = 4;
    std::vector<double> times;
    int cut_short = 0;
    for (int i = 0; times.size() < static_cast<size_t>(sizes_.runs); ++i) {
      if (i == kTries * sizes_.runs) return absl::FailedPreconditionError("none is ready in time");
      AwaitSimulation(opened);
      CAPSTAN_ASSIGN_OR_RETURN(const Answer answer, Ask(opened, request));
      // One that was made before anything changed may have become too old.
      if (!answer.was_ready) continue;
      times.push_back(answer.milliseconds);
      cut_short += answer.response.cut_short() ? 1 : 0;
    }
    Add(Summarise(Name("what_if_ms") + std::string(suffix), times, "ms", "lower", 50,
                  absl::StrCat(request.jobs_size(), " Jobs, ",
                               request.node_changes_size() > 0 ? kMaxSimulatedNodes : 0,
                               " Nodes more, nothing else asked for some seconds, ", cut_short,
                               " answers cut short; ", Conditions())));
    return absl::OkStatus();
  }

  struct Answer {
    SimulatePlacementResponse response;
    double milliseconds = 0;
    bool was_ready = false;
  };
  absl::StatusOr<Answer> Ask(BenchProcess* opened, const SimulatePlacementRequest& request) {
    Simulations* const simulations = opened->replica->simulations();
    absl::StatusOr<SimulatePlacementResponse> answered;
    absl::Notification done;
    int64_t found_ready = 0;
    const BootTime begun = opened->clock.Read().boot;
    opened->strand.Post([&] {
      found_ready = simulations->found_ready();
      simulations->Simulate(request, kBenchPerson, [&](auto response) {
        answered = std::move(response);
        done.Notify();
      });
    });
    done.WaitForNotification();
    Answer answer;
    answer.milliseconds = 1000 * Seconds(*opened, begun);
    RunOn(&opened->strand, [&] { answer.was_ready = simulations->found_ready() > found_ready; });
    CAPSTAN_ASSIGN_OR_RETURN(answer.response, std::move(answered));
    if (answer.response.jobs_size() != request.jobs_size()) {
      return absl::FailedPreconditionError("not all Jobs were answered for");
    }
    if (request.node_changes_size() > 0 && answer.response.others().started() == 0) {
      return absl::FailedPreconditionError("nobody starts on Nodes that come");
    }
    return answer;
  }

  SimulatePlacementRequest RequestOf(const BenchProcess& opened, int jobs, int nodes) {
    const CoreConfig& config = opened.replica->core_config();
    SimulatePlacementRequest request;
    request.set_parent(kBenchProject);
    for (int i = 0; i < jobs; ++i) *request.add_jobs() = submissions_.NextSpec(config);
    if (nodes > 0) {
      auto& add = *request.add_node_changes()->mutable_add();
      add.set_count(nodes);
      add.set_like(NodeId{bench_fleet::kCluster, bench_fleet::NodeName(0)}.Name());
    }
    return WithDefaults(config, std::move(request));
  }

  void AwaitSimulation(BenchProcess* opened) {
    absl::Notification ready;
    std::function<void()> look = [&] {
      if (opened->replica->simulations()->is_ready()) return ready.Notify();
      opened->strand.RunAfter(absl::Milliseconds(50), look);
    };
    opened->strand.Post(look);
    ready.WaitForNotification();
  }

  // What the strand has of the load.
  struct Arrivals {
    int created = 0;
    int answered = 0;
    int ended = 0;
    absl::Status refused;
    std::vector<double> answers;
    absl::Notification over;
  };

  // Each arrival arms the next, so that a strand that is behind falls behind openly.
  void Arrive(BenchProcess* opened, BenchExecutor* executor, BootTime at, Arrivals* arrivals) {
    opened->strand.RunAt(at, [=, this] {
      if (executor->EndOne(&random_)) ++arrivals->ended;
      const BootTime begun = opened->clock.Read().boot;
      opened->Submit(submissions_.Next(*opened), [=, this](const absl::Status& status) {
        if (!status.ok()) arrivals->refused = status;
        arrivals->answers.push_back(1000 * Seconds(*opened, begun));
        if (++arrivals->answered == sizes_.arrivals) arrivals->over.Notify();
      });
      if (++arrivals->created == sizes_.arrivals) return;
      Arrive(opened, executor, at + absl::Seconds(1) / sizes_.rate, arrivals);
    });
  }

  absl::Status Load(BenchProcess* opened, BenchExecutor* executor,
                    std::vector<RoundTimes>* rounds) {
    Arrivals arrivals;
    const BootTime begun = opened->clock.Read().boot;
    RunOn(&opened->strand, [&] {
      rounds->clear();
      Arrive(opened, executor, begun, &arrivals);
    });
    arrivals.over.WaitForNotification();
    const double took = Seconds(*opened, begun);
    std::vector<double> durable;
    std::vector<double> decided;
    RunOn(&opened->strand, [&] {
      for (const RoundTimes& round : *rounds) {
        durable.push_back(absl::ToDoubleMilliseconds(round.durable));
        decided.push_back(absl::ToDoubleMilliseconds(round.decided));
      }
    });
    CAPSTAN_RETURN_IF_ERROR(arrivals.refused);
    CAPSTAN_RETURN_IF_ERROR(executor->status());
    if (durable.empty()) return absl::FailedPreconditionError("there was no round");
    const std::string conditions =
        absl::StrCat("from the beginning of a step with a round to its last record being durable; ",
                     sizes_.arrivals, " Jobs submitted and ", arrivals.ended, " ended in ", took,
                     " s, to be ", sizes_.rate, " a second, of which ", opened->shed,
                     " submissions were shed and came again; ", Conditions());
    Add(Summarise(Name("round_p50_ms"), durable, "ms", "lower", 0, conditions));
    Add(Percentile99(Name("round_p99_ms"), durable, 1000, conditions));
    Add(Percentile99(Name("round_decision_p99_ms"), decided, 0,
                     absl::StrCat("of those the step alone, without the store; ", conditions)));
    Add(Summarise(Name("create_p50_ms"), arrivals.answers, "ms", "lower", 0,
                  absl::StrCat("from a submission to its answer; ", conditions)));
    Add(Percentile99(Name("create_p99_ms"), arrivals.answers, 0,
                     absl::StrCat("from a submission to its answer; ", conditions)));
    Add(Summarise(
        Name("load_lag"), {took * sizes_.rate / sizes_.arrivals}, "ratio", "lower", 0,
        absl::StrCat("time taken by the time planned: above 1 it falls behind; ", conditions)));
    return absl::OkStatus();
  }

  static Figure Percentile99(std::string name, std::vector<double> values, double limit,
                             std::string conditions) {
    std::sort(values.begin(), values.end());
    const double p99 = values[values.size() * 99 / 100];
    Figure figure =
        Summarise(std::move(name), std::move(values), "ms", "lower", limit, std::move(conditions));
    figure.value = p99;
    return figure;
  }

  absl::Status Restart() {
    const BootTime begun = SystemClock().Read().boot;
    BenchProcess opened(SqliteAt(path_));
    CAPSTAN_RETURN_IF_ERROR(opened.Begin(ReplicaOptions(), &submissions_));
    restarts_.push_back(Seconds(opened, begun));
    if (restarts_.size() < static_cast<size_t>(sizes_.runs)) return absl::OkStatus();
    Add(Summarise(absl::StrCat(Name("restart_s"), ".sqlite"), restarts_, "s", "lower", 30,
                  absl::StrCat("from opening the store to the first submission answered and seen ",
                               "by readers, its step with a round, the file in the page cache; ",
                               Conditions())));
    return absl::OkStatus();
  }

  absl::Status TakeOver() {
    BenchProcess opened(SqliteAt(path_));
    CAPSTAN_RETURN_IF_ERROR(opened.status);
    // Whoever leads, and dies: the lease stays until it has run out.
    std::unique_ptr<store::Leadership> other;
    absl::Notification gained;
    RunOn(&opened.strand, [&] {
      store::Leadership::Options options;
      options.key = absl::StrCat(kKeyPrefix, "leader");
      options.value = "other";
      options.ttl = sizes_.leadership_ttl;
      options.margin = sizes_.leadership_ttl / 8;
      options.sole_owner = true;
      other = std::make_unique<store::Leadership>(opened.store.get(), &opened.strand, options);
      other->Start({.on_gained =
                        [&gained, begun = false]() mutable {
                          if (!std::exchange(begun, true)) gained.Notify();
                        },
                    .on_lost =
                        [this](const absl::Status& why) {
                          Tell(absl::StrCat("the first leader lost it: ", why.ToString()));
                        }});
    });
    gained.WaitForNotification();
    BenchReplica::Options options = ReplicaOptions();
    options.sole_owner = false;
    absl::Notification leads;
    options.on_leading = [&leads, begun = false]() mutable {
      if (!std::exchange(begun, true)) leads.Notify();
    };
    opened.replica =
        std::make_unique<BenchReplica>(&opened.strand, opened.store.get(), std::move(options));
    absl::Notification warm;
    opened.strand.Post([&] { opened.replica->view()->WhenAtLeast(1, [&] { warm.Notify(); }); });
    warm.WaitForNotification();
    // When the key goes, as everyone sees it.
    BootTime lost = BootTime::InfinitePast();
    std::unique_ptr<store::Watch> watch;
    BootTime died;
    RunOn(&opened.strand, [&] {
      store::WatchRequest request;
      request.key = absl::StrCat(kKeyPrefix, "leader");
      watch = opened.store->StartWatch(std::move(request),
                                       [&](const absl::StatusOr<store::WatchBatch>& batch) {
                                         if (!batch.ok()) return;
                                         for (const store::WatchEvent& event : batch->events) {
                                           if (event.type == store::WatchEvent::Type::kDelete) {
                                             lost = std::max(lost, opened.clock.Read().boot);
                                           }
                                         }
                                       });
      died = opened.clock.Read().boot;
      other.reset();
    });
    leads.WaitForNotification();
    CAPSTAN_RETURN_IF_ERROR(opened.FirstAnswer(&submissions_));
    takeovers_.push_back(Seconds(opened, died));
    RunOn(&opened.strand, [&] {
      since_lost_.push_back(Seconds(opened, std::max(lost, died)));
      watch.reset();
    });
    if (takeovers_.size() < static_cast<size_t>(sizes_.runs)) return absl::OkStatus();
    Add(Summarise(Name("takeover_s"), takeovers_, "s", "lower", 5,
                  absl::StrCat("from the death of the leader, whose lease lives ",
                               absl::FormatDuration(sizes_.leadership_ttl),
                               ", to the first submission that a follower has answered, its view ",
                               "warm; ", Conditions())));
    Add(Summarise(Name("takeover_after_lease_s"), since_lost_, "s", "lower", 0,
                  absl::StrCat("of that, from the end of the lease; ", Conditions())));
    return absl::OkStatus();
  }

  const StoreBenchSizes sizes_;
  const std::string folder_;
  const std::string path_;
  const BootTime begun_ = SystemClock().Read().boot;
  Random random_{2};
  // The strand's while there is load.
  BenchSubmissions submissions_{2};
  std::vector<double> restarts_;
  std::vector<double> takeovers_;
  std::vector<double> since_lost_;
  std::vector<Figure> figures_;
};

}  // namespace

absl::StatusOr<std::vector<Figure>> BenchOverSqlite(const StoreBenchSizes& sizes,
                                                    const std::string& folder) {
  return StoreBench(sizes, folder).Run();
}

}  // namespace capstan::scheduler
