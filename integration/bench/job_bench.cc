#include "integration/bench/job_bench.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "integration/bench/bench_platform.h"
#include "integration/bench/closed_loop.h"
#include "integration/bench/figure.h"
#include "integration/bench/job_request.h"
#include "integration/bench/machine_limits.h"
#include "integration/bench/process_use.h"
#include "integration/monitoring/http_request.h"
#include "integration/platform/store_config.h"
#include "libs/rpc/call.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/parts.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::bench {
namespace {

namespace pb = ::capstan::scheduler::v1;

constexpr char kQueue[] = "bench";
constexpr int kManyClients = 64;
// What a new leader may take at most while the store keeps its own.
constexpr double kTakeOverBar = 5;
constexpr absl::Duration kLeadershipTtl = absl::Seconds(3);

// Of clients that each have a connection.
class Creators {
 public:
  Creators(const Bench& bench, const std::vector<std::shared_ptr<grpc::Channel>>& channels)
      : loop_(
            bench.clock,
            [this](int client, grpc::ClientContext* context, const pb::CreateJobRequest* request,
                   pb::Job* response, std::function<void(grpc::Status)> done) {
              stubs_[static_cast<size_t>(client)]->async()->CreateJob(context, request, response,
                                                                      std::move(done));
            },
            [](int, pb::CreateJobRequest* request) {
              if (request->parent().empty()) *request = SmallJob(kQueue);
            }) {
    for (const auto& channel : channels) stubs_.push_back(pb::JobService::NewStub(channel));
  }
  absl::StatusOr<LoopResult> Run(int clients, absl::Duration time) {
    return loop_.Run(clients, time);
  }

 private:
  std::vector<std::unique_ptr<pb::JobService::Stub>> stubs_;
  ClosedLoop<pb::CreateJobRequest, pb::Job> loop_;
};

absl::Status CreatesOn(const Bench& bench, const std::string& store, const std::string& config,
                       double bar) {
  BenchPlatform platform(bench.clock, config);
  CAPSTAN_RETURN_IF_ERROR(platform.Start());
  CAPSTAN_RETURN_IF_ERROR(platform.MakeHeldQueue(kQueue));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channels, platform.People("scheduler", kManyClients));
  std::vector<pid_t> processes = {getpid()};
  for (const dev::PartSpec& part : dev::AllParts()) {
    const auto process = platform.platform().Part(part.name);
    if (process.has_value()) processes.push_back(process->pid);
  }
  const auto run_time = [&] {
    absl::Duration sum;
    for (const pid_t process : processes) sum += RunTime(process);
    return sum;
  };
  Creators creators(bench, channels);
  // Connects.
  CAPSTAN_RETURN_IF_ERROR(creators.Run(kManyClients, absl::Milliseconds(100)).status());

  std::vector<double> syncs;
  std::vector<double> one;
  std::vector<double> many;
  std::vector<double> p99;
  std::vector<double> busy;
  for (int run = 0; run < bench.Runs(5); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(
        const double rate,
        SyncsPerSecond(bench.clock, platform.platform().folder(), bench.Time(absl::Seconds(1))));
    syncs.push_back(rate);
    CAPSTAN_ASSIGN_OR_RETURN(const LoopResult alone, creators.Run(1, bench.Time(absl::Seconds(2))));
    one.push_back(alone.PerSecond());
    const absl::Duration before = run_time();
    CAPSTAN_ASSIGN_OR_RETURN(const LoopResult together,
                             creators.Run(kManyClients, bench.Time(absl::Seconds(3))));
    busy.push_back(absl::ToDoubleMicroseconds(run_time() - before) /
                   static_cast<double>(together.calls));
    many.push_back(together.PerSecond());
    p99.push_back(Percentile(InUnit(together.latencies, absl::Milliseconds(1)), 0.99));
  }
  const std::string conditions = absl::StrCat(
      "CreateJob by a person over mTLS into a held Queue of a whole platform on ", store,
      ", acknowledged once durable; clients and all parts on ", Cores(), " cores");
  bench.report({.name = absl::StrCat("job_create_per_s.", store, ".clients1"),
                .values = one,
                .unit = "1/s",
                .better = Better::kHigher,
                .limit = Median(syncs),
                .limit_name = "fdatasync of 4 KiB, 1/s",
                .conditions = conditions});
  bench.report({.name = absl::StrCat("job_create_per_s.", store, ".clients64"),
                .values = many,
                .unit = "1/s",
                .better = Better::kHigher,
                .limit = Median(syncs) * kManyClients,
                .limit_name = "64 Jobs in each fdatasync of 4 KiB, 1/s",
                .bar = bar,
                .conditions = conditions});
  bench.report(
      {.name = absl::StrCat("job_create_cpu_us.", store, ".clients64"),
       .values = busy,
       .unit = "us",
       .limit = 1e6 * Cores() / Median(many),
       .limit_name = "time of all cores for each Job that was made, us",
       .conditions = absl::StrCat("of clients and all parts, etcd left out; ", conditions)});
  bench.report({.name = absl::StrCat("job_create_p99_ms.", store, ".clients64"),
                .values = p99,
                .unit = "ms",
                .limit = 1000 / Median(syncs),
                .limit_name = "one fdatasync of 4 KiB, ms",
                .conditions = conditions});
  return absl::OkStatus();
}

// The part that leads, by what each scheduler says of itself; empty if none does.
std::string LeadingPart(integration::TestPlatform& platform) {
  const auto endpoints = cli::ReadEndpoints(platform.data_dir());
  if (!endpoints.ok()) return "";
  for (const auto& [name, part] : endpoints->parts()) {
    if (!absl::StartsWith(name, "scheduler") || !platform.Part(name).has_value()) continue;
    const std::string page =
        integration::HttpGet(absl::StrCat("http://", part.metrics_address(), "/metrics")).body;
    if (absl::StrContains(page, "\ncapstan_scheduler_leader 1\n")) return name;
  }
  return "";
}

// Whether a Job is taken now.
bool CreatesOne(pb::JobService::Stub& jobs) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Milliseconds(500));
  pb::Job made;
  return jobs.CreateJob(&context, SmallJob(kQueue), &made).ok();
}

}  // namespace

absl::Status BenchJobCreates(const Bench& bench) {
  CAPSTAN_RETURN_IF_ERROR(CreatesOn(bench, "sqlite", "", 5000));
  CAPSTAN_ASSIGN_OR_RETURN(const auto etcd, testenv::EtcdServer::Start({.members = 1}));
  return CreatesOn(bench, "etcd", integration::StoreConfig(*etcd), 1500);
}

absl::Status BenchTakeOver(const Bench& bench) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto etcd, testenv::EtcdServer::Start({.members = 1}));
  BenchPlatform platform(bench.clock,
                         absl::StrCat("schedulers: 2\n", integration::StoreConfig(*etcd)));
  CAPSTAN_RETURN_IF_ERROR(platform.Start());
  CAPSTAN_RETURN_IF_ERROR(platform.MakeHeldQueue(kQueue));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Person("scheduler"));
  const auto jobs = pb::JobService::NewStub(channel);
  std::vector<double> taken;
  for (int run = 0; run < bench.Runs(7); ++run) {
    std::string leader;
    // The one that was killed before is there again, and follows.
    const bool settled = AskUntil(bench.clock, absl::Seconds(60), [&] {
      leader = LeadingPart(platform.platform());
      return !leader.empty() && platform.platform().Part("scheduler").has_value() &&
             platform.platform().Part("scheduler-2").has_value() &&
             platform.platform().AwaitReady() && CreatesOne(*jobs);
    });
    if (!settled) return absl::DeadlineExceededError("no scheduler leads");
    const Stopwatch watch(bench.clock);
    platform.platform().Signal(leader, SIGKILL);
    if (!AskUntil(bench.clock, absl::Seconds(60), [&] { return CreatesOne(*jobs); })) {
      return absl::DeadlineExceededError("nobody took over");
    }
    taken.push_back(absl::ToDoubleSeconds(watch.Elapsed()));
  }
  bench.report({.name = "leader_take_over_s",
                .values = taken,
                .unit = "s",
                .limit = absl::ToDoubleSeconds(kLeadershipTtl),
                .limit_name = "life of the dead leader's lease, s",
                .bar = kTakeOverBar,
                .conditions = "from kill -9 of the leading one of two schedulers over etcd to the "
                              "next Job that a person's client has acknowledged"});
  return absl::OkStatus();
}

}  // namespace capstan::bench
