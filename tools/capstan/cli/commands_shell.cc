#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/strand/thread_strand.h"
#include "tools/capstan/cli/commands.h"
#include "tools/capstan/cli/completion.h"
#include "tools/capstan/cli/completion_script.h"
#include "tools/capstan/cli/man_page.h"
#include "tools/capstan/cli/resource_names.h"

namespace capstan::cli {
namespace {

// Nobody waits longer for a word.
constexpr absl::Duration kNamesTimeOut = absl::Seconds(2);

absl::Status WriteManPages(const CLI::App& root, const std::string& folder,
                           Invocation& invocation) {
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return status::Error(
        absl::StatusCode::kInvalidArgument, "FILE_NOT_WRITABLE",
        absl::StrCat(ErrnoStatus(errno, "making", folder).message(),
                     "; expected a folder, or the name of one to be made in a folder that you may "
                     "write to"),
        {{"folder", folder}});
  }
  const std::vector<ManPage> pages = ManPages(root, invocation.clock->Read().wall);
  for (const ManPage& page : pages) {
    const std::string path = absl::StrCat(folder, "/", page.file);
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << page.text;
    out.close();
    if (!out) {
      return status::Error(absl::StatusCode::kInvalidArgument, "FILE_NOT_WRITABLE",
                           absl::StrCat("cannot write ", path,
                                        "; expected a folder that you may "
                                        "write to"),
                           {{"file", path}});
    }
  }
  *invocation.out << pages.size() << " pages in " << folder << "; read one with `man -l " << folder
                  << "/capstan.1`\n";
  return absl::OkStatus();
}

}  // namespace

void AddShellCommands(CLI::App& app, Act* act) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print what makes a shell complete capstan's words");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")->type_name("SHELL")->required();
  completion->footer(
      "Examples:\n"
      "  source <(capstan completion bash)\n"
      "  capstan completion zsh >_capstan\n"
      "  capstan completion fish >capstan.fish\n");
  completion->callback([=] {
    *act = [=](Invocation& invocation) -> absl::Status {
      CAPSTAN_ASSIGN_OR_RETURN(const std::string script, CompletionScript(*shell));
      *invocation.out << script;
      return absl::OkStatus();
    };
  });

  CLI::App* man = app.add_subcommand("man", "Write the manual: a page for each command");
  auto folder = std::make_shared<std::string>();
  man->add_option("--dir", *folder, "folder to write to; made if need be")
      ->type_name("DIR")
      ->required();
  man->footer("Examples:\n  capstan man --dir ./man && ls ./man\n");
  man->callback([&app, act, folder] {
    *act = [&app, folder](Invocation& invocation) {
      return WriteManPages(app, *folder, invocation);
    };
  });
}

void PrintCompletion(const CLI::App& app, const std::vector<std::string>& words,
                     Invocation& invocation) {
  // Whatever hangs, hangs there: this process ends without it.
  auto* const strand = new ThreadStrand("names", invocation.clock);
  bool late = false;
  const NameSource names = [&](const std::string& type,
                               const std::map<std::string, std::string>& options) {
    struct Answer {
      std::vector<Candidate> names;
      absl::Notification there;
    };
    const auto answer = std::make_shared<Answer>();
    strand->Post([answer, type, options, ask = PlatformNames(invocation)] {
      answer->names = ask(type, options);
      answer->there.Notify();
    });
    late = !answer->there.WaitForNotificationWithTimeout(kNamesTimeOut);
    return late ? std::vector<Candidate>() : answer->names;
  };
  *invocation.out << FormatCompletion(Complete(app, words, names)) << std::flush;
  if (late) _exit(0);
  delete strand;
}

}  // namespace capstan::cli
