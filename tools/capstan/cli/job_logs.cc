#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_commands.h"
#include "tools/capstan/cli/job_show.h"
#include "tools/capstan/cli/log_line.h"
#include "tools/capstan/cli/log_selection.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using event::v1::JobEvent;
using telemetry::v1::Record;

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
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  LogSelection selection;
  selection.job = InProject(invocation.project, "jobs", options.name);
  selection.tail = options.tail;
  selection.rank = options.rank;
  selection.generation = options.generation;
  selection.follow = options.follow;
  const LogLineStyle style = {.rank = !options.rank.has_value(), .time = options.timestamps};
  return ReadLog(*platform, selection, invocation, [&](const Record& record) {
    if (invocation.output.format != OutputFormat::kTable) {
      *invocation.out << RenderChange(invocation, record) << "\n";
    } else {
      *invocation.out << FormatLogLine(record, style, invocation.out_terminal) << "\n";
    }
    if (options.follow) invocation.out->flush();
  });
}

absl::Status ShowEvents(const EventsOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  const std::string job = InProject(invocation.project, "jobs", options.name);
  return ReadEvents(*platform, job, options.follow, invocation, [&](const Record& record) {
    JobEvent event;
    if (!event.ParseFromString(record.payload())) return;
    *invocation.out << (invocation.output.format == OutputFormat::kTable
                            ? EventLine(event)
                            : RenderChange(invocation, event))
                    << "\n";
    if (options.follow) invocation.out->flush();
  });
}

}  // namespace capstan::cli
