#include "integration/bench/person_bench.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "integration/bench/bench_platform.h"
#include "integration/bench/figure.h"
#include "integration/bench/job_request.h"
#include "integration/bench/machine_limits.h"
#include "integration/bench/process_use.h"
#include "integration/platform/test_platform.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::bench {
namespace {

constexpr char kQueue[] = "bench";

std::vector<std::string> EnvironmentOf(const integration::TestPlatform& platform) {
  return {"PATH=/usr/bin:/bin", absl::StrCat("HOME=", platform.folder()), "LANG=C.UTF-8"};
}

absl::StatusOr<double> CommandMilliseconds(const Bench& bench,
                                           const integration::TestPlatform& platform,
                                           const std::vector<std::string>& arguments) {
  CAPSTAN_ASSIGN_OR_RETURN(
      const absl::Duration taken,
      RunToEnd(bench.clock, platform.CommandLine(arguments), EnvironmentOf(platform)));
  return absl::ToDoubleMilliseconds(taken);
}

absl::Status CreateJob(scheduler::v1::JobService::Stub& jobs,
                       const scheduler::v1::CreateJobRequest& request) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(30));
  scheduler::v1::Job made;
  return rpc::FromGrpcStatus(jobs.CreateJob(&context, request, &made));
}

// Until the first line of its log; the Job ends by itself.
absl::StatusOr<double> FirstLineMilliseconds(const Bench& bench,
                                             scheduler::v1::JobService::Stub& jobs,
                                             telemetry::v1::StreamService::Stub& streams,
                                             const std::string& id) {
  telemetry::v1::ReadRecordsRequest read;
  read.set_stream(absl::StrCat("projects/default/jobs/", id, "/streams/log"));
  read.set_follow(true);
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(60));
  const auto reader = streams.ReadRecords(&context, read);
  telemetry::v1::ReadRecordsResponse response;
  // It follows once it has said that there is nothing yet.
  if (!reader->Read(&response)) return rpc::FromGrpcStatus(reader->Finish());
  scheduler::v1::CreateJobRequest request = SmallJob("");
  request.set_job_id(id);
  const Stopwatch watch(bench.clock);
  CAPSTAN_RETURN_IF_ERROR(CreateJob(jobs, request));
  while (reader->Read(&response)) {
    for (const telemetry::v1::Record& record : response.records()) {
      if (record.kind() != "log") continue;
      const double taken = absl::ToDoubleMilliseconds(watch.Elapsed());
      context.TryCancel();
      reader->Finish().ok();
      return taken;
    }
  }
  return rpc::FromGrpcStatus(reader->Finish());
}

// Nothing of a Job that is over is left to be done.
absl::Status AwaitEnd(const Bench& bench, scheduler::v1::JobService::Stub& jobs,
                      const std::string& id) {
  scheduler::v1::GetJobRequest request;
  request.set_name(absl::StrCat("projects/default/jobs/", id));
  scheduler::v1::Job job;
  const bool ended = AskUntil(bench.clock, absl::Seconds(30), [&] {
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(5));
    return jobs.GetJob(&context, request, &job).ok() &&
           job.state() == scheduler::v1::Job::STATE_SUCCEEDED;
  });
  if (ended) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(id, " has not succeeded: ", job.message()));
}

}  // namespace

absl::Status BenchCommands(const Bench& bench) {
  BenchPlatform platform(bench.clock);
  CAPSTAN_RETURN_IF_ERROR(platform.Start());
  CAPSTAN_RETURN_IF_ERROR(platform.MakeHeldQueue(kQueue));
  CAPSTAN_ASSIGN_OR_RETURN(const auto to_scheduler, platform.Person("scheduler"));
  CAPSTAN_ASSIGN_OR_RETURN(const auto to_telemetry, platform.Person("telemetry"));
  const auto jobs = scheduler::v1::JobService::NewStub(to_scheduler);
  const auto streams = telemetry::v1::StreamService::NewStub(to_telemetry);

  // The first run of a program comes from the disk.
  CAPSTAN_RETURN_IF_ERROR(FirstLineMilliseconds(bench, *jobs, *streams, "first").status());
  std::vector<double> first_line;
  std::vector<double> echo;
  for (int run = 0; run < bench.Runs(15); ++run) {
    const std::string id = absl::StrCat("echo", run);
    CAPSTAN_ASSIGN_OR_RETURN(const double taken, FirstLineMilliseconds(bench, *jobs, *streams, id));
    first_line.push_back(taken);
    CAPSTAN_RETURN_IF_ERROR(AwaitEnd(bench, *jobs, id));
    CAPSTAN_ASSIGN_OR_RETURN(
        const absl::Duration alone,
        RunToEnd(bench.clock, {"/bin/echo", "hello"}, EnvironmentOf(platform.platform())));
    echo.push_back(absl::ToDoubleMilliseconds(alone));
  }
  bench.report({.name = "submit_to_first_log_ms",
                .values = first_line,
                .unit = "ms",
                .limit = Median(echo),
                .limit_name = "the program alone, from fork to end, ms",
                .conditions = "from sending CreateJob of a Job that echoes a word to the line's "
                              "arrival at a person who follows the log, on an idle platform"});

  for (int i = 0; i < 20; ++i) CAPSTAN_RETURN_IF_ERROR(CreateJob(*jobs, SmallJob(kQueue)));
  const std::vector<std::string> list = {"job", "list"};
  const std::vector<std::string> nothing = {"--help"};
  // Gets the person's SVID, which is kept.
  CAPSTAN_RETURN_IF_ERROR(CommandMilliseconds(bench, platform.platform(), list).status());
  std::vector<double> listed;
  std::vector<double> started;
  for (int run = 0; run < bench.Runs(51); ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(const double taken,
                             CommandMilliseconds(bench, platform.platform(), list));
    listed.push_back(taken);
    CAPSTAN_ASSIGN_OR_RETURN(const double help,
                             CommandMilliseconds(bench, platform.platform(), nothing));
    started.push_back(help);
  }
  bench.report({.name = "cli_list_ms",
                .values = listed,
                .unit = "ms",
                .limit = Median(started),
                .limit_name = "`capstan --help`, which calls nobody, ms",
                .bar = 30,
                .conditions = absl::StrCat("`capstan job list` of ", 21 + first_line.size(),
                                           " Jobs from fork to end, with a kept SVID, in turns "
                                           "with `capstan --help`")});
  return absl::OkStatus();
}

absl::Status BenchStart(const Bench& bench) {
  std::vector<double> fresh;
  std::vector<double> again;
  std::vector<double> program;
  for (int run = 0; run < bench.Runs(7); ++run) {
    integration::TestPlatform platform;
    const std::vector<std::string> up = {"dev", "up", "--detach", "--config",
                                         platform.config_file()};
    for (std::vector<double>* values : {&fresh, &again}) {
      CAPSTAN_ASSIGN_OR_RETURN(const double taken, CommandMilliseconds(bench, platform, up));
      values->push_back(taken);
      if (platform.Capstan({"dev", "status"}).exit_code != 0) {
        return absl::InternalError("`dev up` ended before every part was ready");
      }
      platform.Down();
    }
    CAPSTAN_ASSIGN_OR_RETURN(const double help, CommandMilliseconds(bench, platform, {"--help"}));
    program.push_back(help);
  }
  const auto processes = static_cast<double>(dev::AllParts().size() + 1);
  const double limit = Median(program) * processes / Cores();
  const std::string limit_name =
      absl::StrCat("`capstan --help` ", processes, " times on ", Cores(), " cores, ms");
  bench.report({.name = "start_ms",
                .values = fresh,
                .unit = "ms",
                .limit = limit,
                .limit_name = limit_name,
                .bar = 1000,
                .conditions = "`capstan dev up --detach` in a new folder, from fork until it says "
                              "that every part is ready; the trust domain is made, every part "
                              "joins"});
  bench.report({.name = "restart_ms",
                .values = again,
                .unit = "ms",
                .limit = limit,
                .limit_name = limit_name,
                .bar = 1000,
                .conditions = "the same in a folder that has had a platform"});
  return absl::OkStatus();
}

absl::Status BenchIdle(const Bench& bench) {
  BenchPlatform platform(bench.clock);
  CAPSTAN_RETURN_IF_ERROR(platform.Start());
  std::vector<std::string> names = {"supervisor"};
  for (const dev::PartSpec& part : dev::AllParts()) names.push_back(part.name);
  // What a start has left to do.
  Pause(bench.Time(absl::Seconds(5)));
  std::vector<std::vector<double>> percent(names.size());
  std::vector<std::vector<double>> megabytes(names.size());
  std::vector<double> percent_sum;
  std::vector<double> megabytes_sum;
  for (int run = 0; run < bench.Runs(5); ++run) {
    std::vector<absl::Duration> before;
    std::vector<pid_t> pids;
    for (const std::string& name : names) {
      const auto process = platform.platform().Part(name);
      if (!process.has_value()) return absl::UnavailableError(absl::StrCat(name, " has ended"));
      pids.push_back(process->pid);
      before.push_back(RunTime(process->pid));
    }
    const Stopwatch watch(bench.clock);
    Pause(bench.Time(absl::Seconds(10)));
    const absl::Duration elapsed = watch.Elapsed();
    double percent_all = 0;
    double megabytes_all = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      percent[i].push_back(100 * absl::FDivDuration(RunTime(pids[i]) - before[i], elapsed));
      megabytes[i].push_back(ResidentMegabytes(pids[i]));
      percent_all += percent[i].back();
      megabytes_all += megabytes[i].back();
    }
    percent_sum.push_back(percent_all);
    megabytes_sum.push_back(megabytes_all);
  }
  names.emplace_back("all");
  percent.push_back(std::move(percent_sum));
  megabytes.push_back(std::move(megabytes_sum));
  for (size_t i = 0; i < names.size(); ++i) {
    bench.report({.name = absl::StrCat("idle_rss_mb.", names[i]),
                  .values = megabytes[i],
                  .unit = "MB",
                  .conditions = "resident memory, shared pages included; no Job, no caller"});
    bench.report({.name = absl::StrCat("idle_cpu_percent.", names[i]),
                  .values = percent[i],
                  .unit = "%",
                  .conditions = "of one core, over 10 s a run; no Job, no caller"});
  }
  return absl::OkStatus();
}

}  // namespace capstan::bench
