#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_commands.h"
#include "tools/capstan/cli/job_follow.h"
#include "tools/capstan/cli/job_text.h"
#include "tools/capstan/cli/log_line.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/proto_text.h"

namespace capstan::cli {
namespace {

using event::v1::JobEvent;
using scheduler::v1::Job;
using telemetry::v1::Record;

// The last lines of a Task reach telemetry after its end is known; a stream that is still for so
// long after that is at its end.
constexpr absl::Duration kStill = absl::Milliseconds(1500);

// Ends the reading of a followed stream once its Job has ended and no record has come for kStill.
class EndOfJob {
 public:
  EndOfJob(Platform* platform, std::string job, const Clock* clock, ReadCancel* cancel)
      : clock_(clock),
        cancel_(cancel),
        thread_([this, platform, job = std::move(job)] { Wait(*platform, job); }) {}
  ~EndOfJob() { thread_.join(); }

  void Heard() { heard_ns_ = clock_->Read().boot.ToNanoseconds(); }
  void ReadingEnded() { reading_ = false; }

 private:
  void Wait(Platform& platform, const std::string& job) {
    const absl::Status followed = FollowJob(
        platform, job, [this](const Job& now) { return reading_ && !IsFinal(now.state()); });
    if (followed.ok()) Heard();
    while (reading_ && clock_->Read().boot - BootTime::FromNanoseconds(heard_ns_) < kStill) {
      absl::SleepFor(kStill / 10);
    }
    cancel_->Cancel();
  }

  const Clock* const clock_;
  ReadCancel* const cancel_;
  std::atomic<int64_t> heard_ns_ = 0;
  std::atomic<bool> reading_ = true;
  std::thread thread_;
};

// Reads a stream of a Job; a followed one ends with the Job.
absl::Status ReadJobStream(Invocation& invocation, const std::string& job, StreamQuery query,
                           const std::function<void(const Record&)>& print) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform,
                           Platform::Open(invocation.data_dir, invocation.clock));
  query.stream = absl::StrCat(job, "/streams/", query.stream);
  if (!query.follow) {
    return ReadStream(*platform, query, [&](const Record& record) {
      print(record);
      return true;
    });
  }
  // Before the threads: channels are made by one.
  CAPSTAN_RETURN_IF_ERROR(platform->Channel("scheduler").status());
  CAPSTAN_RETURN_IF_ERROR(platform->Channel("telemetry").status());
  ReadCancel cancel;
  EndOfJob end(platform.get(), job, invocation.clock, &cancel);
  const absl::Status read = ReadStream(
      *platform, query,
      [&](const Record& record) {
        end.Heard();
        print(record);
        invocation.out->flush();
        return true;
      },
      &cancel);
  end.ReadingEnded();
  return read;
}

std::string EventLine(const JobEvent& event) {
  std::string line = absl::StrCat(
      absl::FormatTime("%H:%M:%E3S", ToTime(event.event_time()), absl::LocalTimeZone()), " ",
      event.state());
  if (event.generation() > 0) absl::StrAppend(&line, " gen ", event.generation());
  if (!event.reason().empty()) absl::StrAppend(&line, " ", event.reason());
  if (event.has_task()) {
    absl::StrAppend(
        &line, " ", event.task().key().group(), "-", event.task().key().index(), " ",
        ShortEnum(type::v1::TaskObservation::State_Name(event.task().state()), "STATE_"));
    if (event.task().has_end()) absl::StrAppend(&line, " (", DescribeEnd(event.task().end()), ")");
  }
  if (!event.message().empty()) absl::StrAppend(&line, " - ", event.message());
  return WithoutControls(line);
}

}  // namespace

absl::Status ShowLogs(const LogsOptions& options, Invocation& invocation) {
  StreamQuery query;
  query.stream = "log";
  query.tail = options.tail;
  query.follow = options.follow;
  if (options.rank.has_value()) query.attributes["rank"] = absl::StrCat(*options.rank);
  if (options.generation.has_value()) {
    query.attributes["generation"] = absl::StrCat(*options.generation);
  }
  const LogLineStyle style = {.rank = !options.rank.has_value(), .time = options.timestamps};
  return ReadJobStream(invocation, InProject(invocation.project, "jobs", options.name), query,
                       [&](const Record& record) {
                         if (invocation.format == OutputFormat::kJson) {
                           *invocation.out << ToJson(record);
                         } else {
                           *invocation.out << FormatLogLine(record, style, invocation.out_terminal)
                                           << "\n";
                         }
                       });
}

absl::Status ShowEvents(const EventsOptions& options, Invocation& invocation) {
  StreamQuery query;
  query.stream = "events";
  query.follow = options.follow;
  return ReadJobStream(invocation, InProject(invocation.project, "jobs", options.name), query,
                       [&](const Record& record) {
                         JobEvent event;
                         if (!event.ParseFromString(record.payload())) return;
                         if (invocation.format == OutputFormat::kTable) {
                           *invocation.out << EventLine(event) << "\n";
                         } else {
                           *invocation.out << (invocation.format == OutputFormat::kYaml
                                                   ? absl::StrCat("---\n", ToYaml(event))
                                                   : ToJson(event));
                         }
                       });
}

}  // namespace capstan::cli
