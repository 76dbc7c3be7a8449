#include "tools/capstan/dev/demo_steps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/data_commands.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_show.h"
#include "tools/capstan/cli/job_submit.h"
#include "tools/capstan/cli/job_text.h"
#include "tools/capstan/cli/log_line.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/process.h"
#include "tools/capstan/dev/welcome.h"

namespace capstan::dev {
namespace {

using scheduler::v1::Job;

constexpr size_t kMaxScriptOutput = 64 << 10;

// Runs a program to its end; what it printed, or an error with it.
absl::StatusOr<std::string> RunScript(std::vector<std::string> argv,
                                      const std::string& output_file) {
  unlink(output_file.c_str());
  SpawnOptions spawn;
  spawn.argv = std::move(argv);
  spawn.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
                       "OPENBLAS_NUM_THREADS=1"};
  spawn.output_file = output_file;
  CAPSTAN_ASSIGN_OR_RETURN(Child child, Child::Spawn(spawn));
  int wait_status = 0;
  while (waitpid(child.id().pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  const UniqueFd fd(open(output_file.c_str(), O_RDONLY | O_CLOEXEC));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text,
                           ReadAll(fd.get(), kMaxScriptOutput, output_file));
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
    return std::string(absl::StripAsciiWhitespace(text));
  }
  return status::Error(absl::StatusCode::kInternal, "SCRIPT_FAILED",
                       absl::StrCat(absl::StrJoin(spawn.argv, " "), ": ",
                                    DescribeWaitStatus(wait_status), "\n", text));
}

// Shows states, data and log until the Job has ended; how it ended.
absl::StatusOr<Job> ShowJob(cli::Platform& platform, const std::string& name,
                            cli::Invocation& invocation) {
  cli::ShowJobOptions options;
  options.before_job_line = [] { return "job: "; };
  options.job_line = [&](const Job& job) {
    return cli::JobLine(job, invocation.clock->Read().wall, invocation.out_terminal);
  };
  options.log_line = [&](const telemetry::v1::Record& record) {
    return absl::StrCat("  ",
                        cli::FormatLogLine(record, cli::LogLineStyle(), invocation.out_terminal));
  };
  return cli::ShowJob(platform, name, options, invocation);
}

}  // namespace

absl::Status RunDemoSteps(const DemoOptions& options, const std::string& example,
                          cli::Invocation& invocation) {
  std::ostream& out = *invocation.out;
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, cli::Platform::Open(invocation));
  CAPSTAN_RETURN_IF_ERROR(PrepareDefaults(invocation));
  PrintNodes(invocation);
  invocation.project = "default";

  const std::string folder = absl::StrCat(invocation.data_dir, "/demo");
  const std::string buckets = absl::StrCat(invocation.data_dir, "/buckets");
  const std::string bucket = absl::StrCat(buckets, "/digits");
  const std::string script_output = absl::StrCat(folder, "/script.out");
  for (const std::string& path : {folder, buckets, bucket}) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "making", path);
    }
  }
  out << "demo: putting the digits into the bucket " << bucket << std::endl;
  CAPSTAN_ASSIGN_OR_RETURN(
      const std::string prepared,
      RunScript({options.python, absl::StrCat(example, "/prepare.py"), bucket}, script_output));
  out << "  " << prepared << "\ndemo: creating the Dataset" << std::endl;
  const absl::Status created =
      cli::CreateDataset({.id = "digits", .source = bucket, .objects = {}}, invocation);
  if (absl::IsAlreadyExists(created)) {
    out << "projects/default/datasets/digits is there already\n";
  } else if (!created.ok()) {
    return created;
  }

  cli::SubmitOptions submit;
  submit.file = absl::StrCat(example, "/train.yaml");
  out << "demo: submitting " << submit.file << std::endl;
  CAPSTAN_ASSIGN_OR_RETURN(const Job job, cli::CreateJobFromFile(submit, *platform, invocation));
  out << job.name() << " created" << std::endl;
  CAPSTAN_ASSIGN_OR_RETURN(const Job ended, ShowJob(*platform, job.name(), invocation));
  if (ended.state() != Job::STATE_SUCCEEDED) {
    return cli::Failed(absl::StrCat(job.name(), " ended as ",
                                    cli::ShortEnum(Job::State_Name(ended.state()), "STATE_"),
                                    "; see `capstan job get ", cli::LastSegment(job.name()), "`"));
  }

  CAPSTAN_ASSIGN_OR_RETURN(const auto output, cli::FetchOutput(job.name(), invocation));
  std::string model;
  for (const auto& task : output.task_outputs()) {
    if (task.rank() == 0) model = task.directory();
  }
  if (model.empty()) return cli::Failed("the Job committed no output of rank 0");
  out << "demo: measuring the committed model on images the Job never saw" << std::endl;
  CAPSTAN_ASSIGN_OR_RETURN(
      const std::string measured,
      RunScript({options.python, absl::StrCat(example, "/evaluate.py"), model}, script_output));
  const std::string id = cli::LastSegment(job.name());
  out << "  " << measured << "\n\n"
      << invocation.out_terminal.Paint(cli::Colour::kGreen, "The demo has succeeded.")
      << "\n  model    " << model << "\n  outputs  capstan job output " << id << "\n"
      << "Next, while the platform is up (`./dev demo --keep`):\n"
      << "  capstan job get " << id << "        capstan job logs " << id << " --rank 0\n"
      << "  capstan job events " << id << "     capstan load list\n"
      << "  capstan node list               capstan audit verify\n"
      << std::flush;
  return absl::OkStatus();
}

}  // namespace capstan::dev
