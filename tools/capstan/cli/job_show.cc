#include "tools/capstan/cli/job_show.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "tools/capstan/cli/archived_jobs.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/data_show.h"
#include "tools/capstan/cli/job_follow.h"
#include "tools/capstan/cli/job_text.h"
#include "tools/capstan/cli/live_lines.h"
#include "tools/capstan/cli/log_end.h"
#include "tools/capstan/cli/log_reader.h"

namespace capstan::cli {
namespace {

using event::v1::JobEvent;
using scheduler::v1::Job;
using telemetry::v1::Record;

// The data_loader tells of a load's end before the scheduler does; this only bounds it.
constexpr absl::Duration kDataBound = absl::Seconds(2);
constexpr absl::Duration kEventsBound = absl::Seconds(10);

std::string OpenNote(const std::vector<std::string>& open) {
  return absl::StrCat("note: the log may lack its end: nothing closed it for ",
                      LogEnd::Describe(open), "\n");
}

std::string UnclosedNote(const std::vector<std::string>& open) {
  return absl::StrCat(
      "note: the Job has ended, and its last lines may not be here yet: nothing has "
      "closed the log of ",
      LogEnd::Describe(open), "; `--follow` waits for them\n");
}

// Of a Job that has no stream: whether there is no such Job at all.
absl::Status CheckJob(Platform& platform, const std::string& name, const Invocation& invocation) {
  return FindJob(&platform, name, invocation).status();
}

// What ShowJob runs on the strand.
class JobShow {
 public:
  JobShow(CommandLoop* loop, Platform* platform, const std::string& name,
          const ShowJobOptions& options, Invocation& invocation)
      : loop_(loop),
        platform_(platform),
        name_(name),
        options_(options),
        invocation_(invocation),
        lines_(invocation.out, invocation.out_terminal),
        data_(loop, platform, &lines_, invocation.out_terminal, [this] { Flush(); }) {}

  void Start() {
    if (options_.log_line) {
      LogSelection selection;
      selection.job = name_;
      selection.follow = true;
      log_ = std::make_unique<LogReader>(
          loop_, platform_, selection,
          [this](const Record& record) { lines_.Print(options_.log_line(record)); },
          [this](const absl::Status& status, const std::vector<std::string>& open) {
            if (!status.ok()) {
              lines_.Print(absl::StrCat("(no log: ", std::string(status.message()), ")"));
            } else if (!open.empty()) {
              *invocation_.err << OpenNote(open);
            }
            log_over_ = true;
            MaybeDone();
          });
      const absl::Status reading = log_->Start();
      if (!reading.ok()) return loop_->Done(reading);
    }
    const absl::Status following = FollowJob(
        loop_, platform_, name_,
        [this](const Job& job) {
          OnJob(job);
          return !IsFinal(job.state());
        },
        [this](const absl::Status& over) { loop_->Done(over); });
    if (!following.ok()) loop_->Done(following);
  }

  const Job& last() const { return last_; }

 private:
  void OnJob(const Job& job) {
    const bool early = job.generation() <= 1 &&
                       (job.state() == Job::STATE_QUEUED || job.state() == Job::STATE_PREPARING);
    if (options_.data && early) data_.OnJob(job);
    waiting_.push_back(job);
    if (data_.settled() || job.reason() == "AWAITING_DATA") return Flush();
    // The data's last line belongs before what the Job does with it.
    loop_->strand()->RunAfter(kDataBound, [this] { Flush(); });
  }

  void Flush() {
    for (const Job& job : std::exchange(waiting_, {})) Show(job);
  }

  void Show(const Job& job) {
    last_ = job;
    const std::string line = options_.job_line ? options_.job_line(job) : "";
    if (line != last_line_) {
      lines_.Print(absl::StrCat(options_.before_job_line ? options_.before_job_line() : "", line));
    }
    last_line_ = line;
    if (log_ != nullptr) log_->OnJob(job);
    MaybeDone();
  }

  void MaybeDone() {
    if (IsFinal(last_.state()) && (log_ == nullptr || log_over_)) loop_->Done(absl::OkStatus());
  }

  CommandLoop* const loop_;
  Platform* const platform_;
  const std::string name_;
  const ShowJobOptions& options_;
  Invocation& invocation_;
  LiveLines lines_;
  DataShow data_;
  std::unique_ptr<LogReader> log_;
  bool log_over_ = false;
  std::vector<Job> waiting_;
  std::string last_line_;
  Job last_;
};

}  // namespace

absl::StatusOr<Job> ShowJob(Platform& platform, const std::string& name,
                            const ShowJobOptions& options, Invocation& invocation) {
  CommandLoop loop(invocation.clock, invocation.random);
  JobShow show(&loop, &platform, name, options, invocation);
  CAPSTAN_RETURN_IF_ERROR(loop.Run([&] { show.Start(); }));
  return show.last();
}

absl::Status ReadLog(Platform& platform, const LogSelection& selection, Invocation& invocation,
                     const std::function<void(const Record&)>& on_line) {
  CommandLoop loop(invocation.clock, invocation.random);
  bool gone = false;
  LogReader log(&loop, &platform, selection, on_line,
                [&](const absl::Status& status, const std::vector<std::string>& open) {
                  if (status.ok() && !open.empty()) *invocation.err << OpenNote(open);
                  loop.Done(status);
                });
  CAPSTAN_RETURN_IF_ERROR(loop.Run([&] {
    absl::Status begun = log.Start();
    if (begun.ok() && selection.follow) {
      begun = FollowJob(
          &loop, &platform, selection.job,
          [&](const Job& job) {
            log.OnJob(job);
            return !IsFinal(job.state());
          },
          [&](const absl::Status& over) {
            if (!absl::IsNotFound(over)) return loop.Done(over);
            gone = true;
            log.OnJobGone();
          });
    }
    if (!begun.ok()) loop.Done(begun);
  }));
  // Telemetry does not know Jobs: it has just never heard of the stream.
  if (selection.follow) {
    return log.lines() == 0 && gone ? CheckJob(platform, selection.job, invocation)
                                    : absl::OkStatus();
  }
  // A Job's end overtakes its last lines. Asked after the log was read: what ends meanwhile may
  // have written more.
  const absl::StatusOr<Job> job = FindJob(&platform, selection.job, invocation);
  if (!job.ok()) return log.lines() == 0 ? job.status() : absl::OkStatus();
  const std::vector<std::string> open = log.Unclosed(*job);
  if (!open.empty()) *invocation.err << UnclosedNote(open);
  return absl::OkStatus();
}

absl::Status ReadEvents(Platform& platform, const std::string& job, bool follow,
                        Invocation& invocation,
                        const std::function<void(const Record&)>& on_event) {
  CommandLoop loop(invocation.clock, invocation.random);
  int64_t events = 0;
  bool gone = false;
  CAPSTAN_RETURN_IF_ERROR(loop.Run([&] {
    StreamQuery query;
    query.stream = absl::StrCat(job, "/streams/events");
    query.follow = follow;
    absl::Status begun = ReadStream(
        &loop, &platform, query,
        [&](const Record& record) {
          ++events;
          on_event(record);
          JobEvent event;
          Job::State state = Job::STATE_UNSPECIFIED;
          const bool last =
              follow && event.ParseFromString(record.payload()) && !event.has_task() &&
              Job::State_Parse(absl::StrCat("STATE_", event.state()), &state) && IsFinal(state);
          if (last) loop.Done(absl::OkStatus());
          return !last;
        },
        [&] {
          // A Job that is not kept any more has no more events.
          if (gone) loop.Done(absl::OkStatus());
        },
        [&](const absl::Status& over) { loop.Done(over); });
    if (begun.ok() && follow) {
      begun = FollowJob(
          &loop, &platform, job,
          [&](const Job& now) {
            if (!IsFinal(now.state())) return true;
            // Its last event is on its way, or was dropped by retention.
            loop.strand()->RunAfter(kEventsBound, [&] { loop.Done(absl::OkStatus()); });
            return false;
          },
          [&](const absl::Status& over) {
            if (!absl::IsNotFound(over)) return loop.Done(over);
            gone = true;
            loop.strand()->RunAfter(kEventsBound / 10, [&] { loop.Done(absl::OkStatus()); });
          });
    }
    if (!begun.ok()) loop.Done(begun);
  }));
  if (events == 0 && (gone || !follow)) return CheckJob(platform, job, invocation);
  return absl::OkStatus();
}

}  // namespace capstan::cli
