#include "tools/capstan/admin/commands_scheduler.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/scheduler/recordings.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/text_table.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::admin {
namespace {

struct ReplayCommand {
  std::string file;
  int64_t until = 0;
  bool verbose = false;
};

absl::Status ReplayOne(const ReplayCommand& command, cli::Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const scheduler::RecordingReplay replay,
                           scheduler::ReplayRecording(command.file, command.until, command.verbose,
                                                      invocation.out, invocation.err));
  if (replay.identical) return absl::OkStatus();
  return cli::Failed("the replay differs from the recording");
}

absl::Status ListRecordings(bool newest, cli::Invocation& invocation) {
  std::vector<scheduler::Recording> all;
  for (const dev::PartSpec& part : dev::PossibleParts()) {
    if (part.service != "scheduler") continue;
    const std::string folder =
        absl::StrCat(dev::PartFolder(invocation.data_dir, part.name), "/recordings");
    for (scheduler::Recording& one : scheduler::ListRecordings(folder)) {
      all.push_back(std::move(one));
    }
  }
  if (newest) {
    const scheduler::Recording* last = nullptr;
    for (const scheduler::Recording& one : all) {
      if (last == nullptr || one.begin >= last->begin) last = &one;
    }
    if (last == nullptr) {
      return status::Error(
          absl::StatusCode::kNotFound, "NO_RECORDING",
          absl::StrCat("no scheduler has left a recording in ", invocation.data_dir));
    }
    *invocation.out << last->path << "\n";
    return absl::OkStatus();
  }
  cli::TextTable table({"BEGUN", "EPOCH", "SIZE", "FILE"});
  for (const scheduler::Recording& one : all) {
    table.AddRow({absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", one.begin, absl::UTCTimeZone()),
                  absl::StrCat(one.leader_epoch), cli::HumanBytes(one.bytes), one.path});
  }
  *invocation.out << table.Render(invocation.out_terminal);
  return absl::OkStatus();
}

}  // namespace

void AddSchedulerCommands(CLI::App& app, cli::Act* act) {
  CLI::App* scheduler =
      app.add_subcommand("scheduler", "Go through what the scheduler has recorded");
  scheduler->require_subcommand(1);

  auto replay_command = std::make_shared<ReplayCommand>();
  CLI::App* replay = scheduler->add_subcommand(
      "replay", "Have this program's scheduler decide again what a recording tells of");
  replay->add_option("file", replay_command->file, "the recording")->type_name("FILE")->required();
  replay->add_option("--until", replay_command->until, "stop after this step, counted from 1")
      ->type_name("NUMBER");
  replay->add_flag("--verbose", replay_command->verbose, "a line for each step");
  replay->footer(
      "Needs no platform. Exits with 0 if every step decides as recorded, with 1 after the first\n"
      "that does not, which is shown, and with 3 if the file cannot be read. Arguments and\n"
      "environments of Jobs are not in a recording: they read as x.\n"
      "Examples:\n"
      "  capstan scheduler replay \"$(capstan scheduler recordings --newest)\"\n"
      "  capstan scheduler replay \"$(capstan scheduler recordings --newest)\" --until 3 "
      "--verbose\n");
  replay->callback(
      [=] { *act = [=](cli::Invocation& now) { return ReplayOne(*replay_command, now); }; });

  auto newest = std::make_shared<bool>(false);
  CLI::App* recordings =
      scheduler->add_subcommand("recordings", "List the recordings in the data folder");
  recordings->add_flag("--newest", *newest, "the path of the newest one and nothing else");
  recordings->footer(
      "One for each term of leadership, oldest first. The platform may run.\n"
      "Examples:\n"
      "  capstan scheduler recordings\n"
      "  capstan scheduler recordings --newest\n");
  recordings->callback(
      [=] { *act = [=](cli::Invocation& now) { return ListRecordings(*newest, now); }; });
}

}  // namespace capstan::admin
