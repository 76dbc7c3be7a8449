#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "libs/resource/quantity.h"
#include "tools/capstan/cli/archived_jobs.h"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/data_commands.h"
#include "tools/capstan/cli/job_attach.h"
#include "tools/capstan/cli/job_commands.h"
#include "tools/capstan/cli/job_simulate.h"
#include "tools/capstan/cli/job_submit.h"
#include "tools/capstan/cli/job_top.h"
#include "tools/capstan/cli/usage_table.h"

namespace capstan::cli {
namespace {

// A command on one Job by name.
CLI::App* AddNamed(CLI::App& parent, const char* word, const char* help, std::string* name) {
  CLI::App* command = parent.add_subcommand(word, help);
  command->add_option("job", *name, "id, or projects/{p}/jobs/{j}")->type_name("JOB")->required();
  return command;
}

void AddSubmit(CLI::App& job, Act* act) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* submit = job.add_subcommand("submit", "Submit a Job from a file in YAML or JSON");
  submit->add_option("file", options->file, "the file; - is standard input")
      ->type_name("FILE")
      ->required();
  submit->add_option("--job-id", options->job_id, "id of the Job, instead of the file's");
  submit
      ->add_option("--after", options->after,
                   "wait until that Job has succeeded; or JOB:ended, JOB:not-succeeded, "
                   "JOB:corresponding of arrays; may be given again")
      ->type_name("JOB")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  submit
      ->add_option("--array", options->array,
                   "N Jobs of it, JOB-0 and so on, of which at most M have begun and not ended at "
                   "once")
      ->type_name("N[%M]");
  submit
      ->add_option("--singleton", options->singleton,
                   "wait until all Jobs submitted before with this key have ended")
      ->type_name("KEY");
  submit->add_flag("--hold", options->hold, "do not start it until it is released");
  submit->add_flag("--dry-run", options->dry_run, "check everything, store nothing");
  submit->add_flag("--watch,-w", options->watch,
                   "show its states and how its data comes, until it has ended");
  submit->add_flag("--follow,-f", options->follow, "as --watch, with its log");
  submit->footer(
      "Examples:\n"
      "  capstan job submit train.yaml\n"
      "  capstan job submit train.yaml --dry-run\n"
      "  capstan job submit train.yaml --watch && echo trained\n"
      "  capstan job submit train.yaml --follow\n"
      "  capstan job submit train.yaml --after digits --after serve:ended\n"
      "  capstan job submit train.yaml --job-id sweep --array 4%2\n"
      "  capstan job submit train.yaml --array 4 --after sweep:corresponding --singleton nightly\n"
      "  NAME=$(capstan job submit train.yaml -o name)\n");
  submit->callback(
      [=] { *act = [=](Invocation& invocation) { return SubmitJob(*options, invocation); }; });
}

void AddSimulate(CLI::App& job, Act* act) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* simulate = job.add_subcommand(
      "simulate", "Say what would happen if Jobs were submitted, or Nodes came or went");
  simulate->add_option("file", options->files, "submit files, at most 10; - is standard input")
      ->type_name("FILE");
  const auto add = [&](const char* flag, std::vector<std::string>* values, const char* help,
                       const char* type) {
    simulate->add_option(flag, *values, help)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add("--add-nodes", &options->add_nodes, "so many more Nodes like that one; may be given again",
      "COUNT=NODE");
  add("--remove-node", &options->remove, "a Node that is gone; may be given again", "NODE");
  add("--cordon", &options->cordon, "a Node that takes nothing new; may be given again", "NODE");
  add("--uncordon", &options->uncordon, "a Node that all cordons are lifted of; may be given again",
      "NODE");
  simulate->footer(
      "Nothing is stored, started or ended. First the Nodes change, all at once, then the Jobs "
      "are\n"
      "submitted one after the other. Needs the permission jobs.simulate.\n"
      "Examples:\n"
      "  capstan job simulate train.yaml\n"
      "  capstan job simulate train.yaml train.yaml -o json\n"
      "  capstan job simulate --add-nodes 10=node-0\n"
      "  capstan job simulate train.yaml --remove-node node-0\n"
      "  capstan job simulate train.yaml --cordon node-0\n");
  simulate->callback(
      [=] { *act = [=](Invocation& invocation) { return SimulateJobs(*options, invocation); }; });
}

void AddUpdate(CLI::App& job, Act* act) {
  auto options = std::make_shared<UpdateJobOptions>();
  CLI::App* update =
      AddNamed(job, "update", "Change a Job's priority or time limit", &options->name);
  update->add_option_function<int>(
      "--priority", [options](int priority) { options->priority = priority; },
      "higher goes first; -1000 to 1000");
  update
      ->add_option("--time-limit", options->time_limit,
                   "longest that a generation may run, from its START, e.g. 4h; none: as long as "
                   "it takes")
      ->type_name("DURATION")
      ->check([](const std::string& text) {
        if (text == kNoTimeLimit) return std::string();
        const auto limit = resource::ParseDuration(text);
        return limit.ok() ? std::string()
                          : absl::StrCat(limit.status().message(), "; or none for no limit");
      });
  update->add_flag("--dry-run", options->dry_run, "check everything, store nothing");
  update->footer(
      "Of one that runs the limit counts from its START: one that is over already ends it. All\n"
      "elements of an array that have not ended follow; an element may be changed by itself. "
      "Needs\n"
      "the permission jobs.update.\n"
      "Examples:\n"
      "  capstan job update serve --priority 5\n"
      "  capstan job update serve --time-limit none\n"
      "  capstan job update serve --priority 0 --time-limit 48h --dry-run\n");
  update->callback(
      [=] { *act = [=](Invocation& invocation) { return UpdateJob(*options, invocation); }; });
}

void AddHolds(CLI::App& job, Act* act) {
  const auto add = [&](const char* word, const char* help, const char* more, bool hold) {
    auto names = std::make_shared<std::vector<std::string>>();
    CLI::App* command = job.add_subcommand(word, help);
    command->add_option("job", *names, "ids, or projects/{p}/jobs/{j}")
        ->type_name("JOB")
        ->required();
    command->footer(absl::StrCat(more, "Examples:\n  capstan job ", word, " serve\n"));
    command->callback(
        [=] { *act = [=](Invocation& invocation) { return HoldJobs(*names, hold, invocation); }; });
  };
  add("hold", "Have Jobs begin nothing until they are released",
      "What runs goes on, and does not start again. Its data is loaded meanwhile, and its place "
      "in\n"
      "the Queue is that of its submission. Needs the permission jobs.update.\n",
      true);
  add("release", "Let held Jobs start again", "Needs the permission jobs.update.\n", false);
}

void AddLogs(CLI::App& job, Act* act) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* logs = AddNamed(job, "logs", "Show what the Tasks have written", &options->name);
  logs->add_flag("--follow,-f", options->follow, "go on until the Job has ended");
  logs->add_option_function<int64_t>(
      "--tail", [options](int64_t n) { options->tail = n; }, "only the last N lines");
  logs->add_option_function<int>(
      "--rank", [options](int n) { options->rank = n; }, "only this rank");
  logs->add_option_function<int64_t>(
      "--generation", [options](int64_t n) { options->generation = n; }, "only this generation");
  logs->add_flag("--timestamps", options->timestamps, "begin each line with its time");
  logs->footer(
      "Examples:\n"
      "  capstan job logs digits -f\n"
      "  capstan job logs digits --rank 0 --tail 20\n"
      "The last lines of a Job that has just ended may still be on their way; a note says so, and\n"
      "-f waits for them.\n");
  logs->callback(
      [=] { *act = [=](Invocation& invocation) { return ShowLogs(*options, invocation); }; });
}

void AddTop(CLI::App& job, Act* act) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = AddNamed(job, "top", "Show what a Job's Tasks use: cpu, memory", &options->name);
  top->add_flag("--once", options->once, "print once, also on a terminal");
  // In place of the global option, which takes a path.
  const std::map<std::string, UsageOrder> orders = {
      {"rank", UsageOrder::kRank}, {"cpu", UsageOrder::kCpu}, {"memory", UsageOrder::kMemory}};
  top->add_option("--sort-by", options->order, "rank, cpu or memory; the most first")
      ->transform(CLI::CheckedTransformer(orders))
      ->type_name("FIGURE");
  top->footer(
      "On a terminal the table is drawn again until the Job ends or Ctrl-C is typed. `-` is what\n"
      "the Node can't tell, or has not told yet: each Task is looked at every few seconds.\n"
      "Memory is the working set; what was asked for is its limit.\n"
      "Examples:\n"
      "  capstan job top digits --once\n"
      "  capstan job top digits --sort-by memory -o wide --once\n"
      "  capstan job top digits -o json\n");
  top->callback(
      [=] { *act = [=](Invocation& invocation) { return TopJob(*options, invocation); }; });
}

void AddExec(CLI::App& job, Act* act) {
  auto options = std::make_shared<ExecOptions>();
  CLI::App* exec = AddNamed(job, "exec", "Run a command in a running Task", &options->name);
  exec->add_option("command", options->argv, "program and arguments, behind --")
      ->type_name("COMMAND")
      ->required();
  exec->add_option("--rank", options->rank, "in this rank")->capture_default_str();
  exec->add_flag("--stdin,-i", options->with_input, "give it standard input");
  exec->add_flag("--tty,-t", options->terminal, "give it a terminal, as large as this one");
  exec->footer(
      "The command has the Task's user, files, environment, working directory and limits. It ends\n"
      "with the session and with the Task. Exits with the command's exit code; 126 if it can't be\n"
      "run, 127 if it is not there. Who ran what is in the audit trail, what it read and wrote is\n"
      "not. Needs the permission jobs.exec. A shell: capstan job exec serve -it -- bash\n"
      "Examples:\n"
      "  capstan job exec serve -- ps ax\n"
      "  capstan job exec serve --rank 0 -- sh -c 'echo $RANK of $WORLD_SIZE'\n"
      "  echo hello | capstan job exec serve -i -- cat\n");
  exec->callback(
      [=] { *act = [=](Invocation& invocation) { return ExecInJob(*options, invocation); }; });
}

void AddPortForward(CLI::App& job, Act* act) {
  auto options = std::make_shared<ForwardOptions>();
  CLI::App* forward = AddNamed(job, "port-forward",
                               "Reach ports of a running Task from this machine", &options->name);
  forward->add_option("ports", options->ports, "LOCAL:REMOTE, PORT for both, :REMOTE for any free")
      ->type_name("PORT")
      ->required();
  forward->add_option("--rank", options->rank, "of this rank")->capture_default_str();
  forward->footer(
      "Listens on 127.0.0.1 until Ctrl-C or the Task's end. Needs the permission jobs.exec; the\n"
      "ports and how many bytes went are in the audit trail.\n"
      "Examples:\n"
      "  capstan job port-forward serve :8080\n");
  forward->callback(
      [=] { *act = [=](Invocation& invocation) { return ForwardPorts(*options, invocation); }; });
}

}  // namespace

void AddJobCommands(CLI::App& app, Act* act) {
  CLI::App* job = app.add_subcommand("job", "Submit, watch, change and end Jobs");
  job->require_subcommand(1);
  job->alias("jobs");
  AddSubmit(*job, act);

  auto list_options = std::make_shared<ListJobsOptions>();
  CLI::App* list = job->add_subcommand("list", "List the project's Jobs, newest first");
  list->add_option("--state", list_options->state, "only in this state, e.g. running")
      ->type_name("STATE");
  list->add_option("--queue", list_options->queue, "only of this Queue")->type_name("QUEUE");
  list->add_option("--filter", list_options->filter,
                   "only what the API's filter lets pass, e.g. 'state=RUNNING AND queue=queues/q'");
  CLI::Option* array =
      list->add_option("--array", list_options->array, "only the elements of this array")
          ->type_name("JOB");
  CLI::Option* watch_list =
      list->add_flag("--watch,-w", list_options->watch, "show all, then each change");
  list->add_option("--since", list_options->since,
                   "archived Jobs too: all that had not ended so long ago, e.g. 7d")
      ->type_name("AGE")
      ->excludes(watch_list)
      ->excludes(array)
      ->check([](const std::string& text) {
        const auto age = ParseAge(text);
        return age.ok() ? std::string() : absl::StrCat(text, ": expected e.g. 7d, 36h or 90m");
      });
  list->footer(
      "Jobs that ended long ago leave for the archive (after 7 days, if not set otherwise);\n"
      "`job get`, `job logs` and `--since` find them there.\n"
      "Examples:\n"
      "  capstan job list --state running\n"
      "  capstan job list --array sweep --state failed\n"
      "  capstan job list --state failed --since 7d\n"
      "  capstan job list --sort-by .generation -o wide\n"
      "  capstan job list -o jsonpath='{.items[?(@.generation>1)].name}'\n");
  list->callback(
      [=] { *act = [=](Invocation& invocation) { return ListJobs(*list_options, invocation); }; });

  auto name = std::make_shared<std::string>();
  CLI::App* get = AddNamed(*job, "get", "Show one Job and its Tasks", name.get());
  get->alias("describe");
  get->footer("Examples:\n  capstan job get digits\n  capstan job get digits -o yaml\n");
  get->callback([=] { *act = [=](Invocation& invocation) { return GetJob(*name, invocation); }; });

  CLI::App* watch = AddNamed(*job, "watch", "Show a Job's states until it has ended", name.get());
  auto with_log = std::make_shared<bool>(false);
  watch->add_flag("--log,-l", *with_log, "show its log as well");
  watch->footer(
      "Exits with 0 if the Job succeeded, else with 1.\n"
      "Examples:\n"
      "  capstan job watch digits\n"
      "  capstan job watch digits -o json\n");
  watch->callback([=] {
    *act = [=](Invocation& invocation) { return WatchJob(*name, *with_log, invocation); };
  });

  CLI::App* explain =
      AddNamed(*job, "explain", "Say why a Job is where it is: what lacks where", name.get());
  explain->footer("Examples:\n  capstan job explain digits\n");
  explain->callback(
      [=] { *act = [=](Invocation& invocation) { return ExplainJob(*name, invocation); }; });

  AddSimulate(*job, act);
  AddUpdate(*job, act);
  AddHolds(*job, act);

  auto cancel_options = std::make_shared<CancelOptions>();
  CLI::App* cancel =
      AddNamed(*job, "cancel", "End a Job, or all elements of an array", &cancel_options->name);
  cancel->add_flag("--wait", cancel_options->wait, "until its Tasks have ended");
  cancel->footer("Examples:\n  capstan job cancel digits --wait\n");
  cancel->callback([=] {
    *act = [=](Invocation& invocation) { return CancelJob(*cancel_options, invocation); };
  });

  AddLogs(*job, act);
  AddTop(*job, act);
  AddExec(*job, act);
  AddPortForward(*job, act);

  auto events_options = std::make_shared<EventsOptions>();
  CLI::App* events =
      AddNamed(*job, "events", "Show every change of a Job, in order", &events_options->name);
  events->add_flag("--follow,-f", events_options->follow, "go on until the Job has ended");
  events->footer("Examples:\n  capstan job events digits --follow\n");
  events->callback([=] {
    *act = [=](Invocation& invocation) { return ShowEvents(*events_options, invocation); };
  });

  CLI::App* output =
      AddNamed(*job, "output", "Show what a Job has committed, and where it lies", name.get());
  output->footer("Examples:\n  capstan job output digits\n");
  output->callback(
      [=] { *act = [=](Invocation& invocation) { return ShowOutput(*name, invocation); }; });
}

}  // namespace capstan::cli
