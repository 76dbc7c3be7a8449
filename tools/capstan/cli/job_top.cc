#include "tools/capstan/cli/job_top.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_follow.h"
#include "tools/capstan/cli/job_text.h"
#include "tools/capstan/cli/live_table.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/terminal_size.h"

namespace capstan::cli {
namespace {

using scheduler::v1::GetJobRequest;
using scheduler::v1::Job;
using scheduler::v1::JobService;
using telemetry::v1::Record;
using v1::TaskUsageLine;

constexpr absl::Duration kRedrawEvery = absl::Seconds(1);

// Enough records to hold one of each Task, with some that came late and some of a gang's restart.
int64_t TailFor(const Job& job) {
  return std::clamp<int64_t>(int64_t{4} * job.tasks_size(), 100, 20'000);
}

StreamQuery UsageOf(const Job& job, bool follow) {
  StreamQuery query;
  query.stream = absl::StrCat(job.name(), "/streams/usage");
  query.tail = TailFor(job);
  query.follow = follow;
  return query;
}

std::string WhyNothing(const Job& job) {
  const std::string id = LastSegment(job.name());
  const std::string state = ShortEnum(Job::State_Name(job.state()), "STATE_");
  if (IsFinal(job.state())) {
    return absl::StrCat(id, " has ended as ", state,
                        ": its Tasks use nothing any more; see `capstan job get ", id, "`\n");
  }
  return absl::StrCat(id, " is ", state, ": none of its Tasks runs yet; `capstan job explain ", id,
                      "` says why\n");
}

absl::Status PrintOnce(const TopOptions& options, const LatestUsage& usage, const Job& job,
                       const Invocation& invocation) {
  std::vector<TaskUsageLine> lines = usage.Lines(job);
  SortUsage(options.order, &lines);
  return PrintList<TaskUsageLine>(invocation, "task_usage", lines,
                                  UsageColumns(invocation.clock->Read().wall));
}

absl::Status ShowOnce(const TopOptions& options, Platform& platform, const std::string& name,
                      const Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Channel("scheduler"));
  const auto stub = JobService::NewStub(channel);
  GetJobRequest request;
  request.set_name(name);
  CAPSTAN_ASSIGN_OR_RETURN(const Job job,
                           Call(stub.get(), &JobService::Stub::GetJob, request, Terms(invocation)));
  LatestUsage usage;
  if (IsFinal(job.state()) || job.tasks_size() == 0) {
    *invocation.err << WhyNothing(job);
    if (invocation.output.format == OutputFormat::kTable) return absl::OkStatus();
    return PrintList<TaskUsageLine>(invocation, "task_usage", std::vector<TaskUsageLine>(), {});
  }
  CommandLoop loop(invocation.clock, invocation.random);
  CAPSTAN_RETURN_IF_ERROR(loop.Run([&] {
    const absl::Status begun = ReadStream(
        &loop, &platform, UsageOf(job, /*follow=*/false),
        [&](const Record& record) {
          usage.Add(record);
          return true;
        },
        [] {}, [&](const absl::Status& over) { loop.Done(over); });
    if (!begun.ok()) loop.Done(begun);
  }));
  return PrintOnce(options, usage, job, invocation);
}

// The table that is drawn again each second. On the loop's strand.
class LiveTop {
 public:
  LiveTop(CommandLoop* loop, Platform* platform, std::string name, const TopOptions& options,
          Invocation& invocation)
      : loop_(loop),
        platform_(platform),
        name_(std::move(name)),
        options_(options),
        invocation_(invocation),
        table_(invocation.out) {}

  void Start() {
    const absl::Status following = FollowJob(
        loop_, platform_, name_,
        [this](const Job& job) {
          OnJob(job);
          return !IsFinal(job.state());
        },
        [this](const absl::Status& over) { loop_->Done(over); });
    if (!following.ok()) loop_->Done(following);
  }

 private:
  void OnJob(const Job& job) {
    job_ = job;
    if (IsFinal(job.state())) {
      // The last figures stay on the screen.
      *invocation_.err << WhyNothing(job);
      return loop_->Done(absl::OkStatus());
    }
    if (std::exchange(reading_, true)) return Draw();
    const absl::Status reading = ReadStream(
        loop_, platform_, UsageOf(job, /*follow=*/true),
        [this](const Record& record) {
          usage_.Add(record);
          return true;
        },
        [this] { Redraw(); }, [this](const absl::Status& over) { loop_->Done(over); });
    if (!reading.ok()) loop_->Done(reading);
  }

  void Redraw() {
    if (loop_->done()) return;
    Draw();
    loop_->strand()->RunAfter(kRedrawEvery, [this] { Redraw(); });
  }

  void Draw() {
    if (loop_->done()) return;
    const absl::Time now = invocation_.clock->Read().wall;
    std::ostringstream text;
    text << LastSegment(name_) << " " << JobLine(job_, now, invocation_.out_terminal) << "\n";
    std::vector<TaskUsageLine> lines = usage_.Lines(job_);
    if (!lines.empty()) {
      SortUsage(options_.order, &lines);
      Invocation drawing = invocation_;
      drawing.out = &text;
      const absl::Status printed =
          PrintList<TaskUsageLine>(drawing, "task_usage", lines, UsageColumns(now));
      if (!printed.ok()) return loop_->Done(printed);
    }
    table_.Draw(text.str(), ReadTerminalSize(STDOUT_FILENO));
  }

  CommandLoop* const loop_;
  Platform* const platform_;
  const std::string name_;
  const TopOptions options_;
  Invocation& invocation_;
  LiveTable table_;
  LatestUsage usage_;
  Job job_;
  bool reading_ = false;
};

}  // namespace

absl::Status TopJob(const TopOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  const std::string name = InProject(invocation.project, "jobs", options.name);
  const bool live = !options.once && invocation.out_terminal.interactive &&
                    invocation.output.format == OutputFormat::kTable;
  if (!live) return ShowOnce(options, *platform, name, invocation);
  CommandLoop loop(invocation.clock, invocation.random);
  LiveTop top(&loop, platform.get(), name, options, invocation);
  return loop.Run([&] { top.Start(); });
}

}  // namespace capstan::cli
