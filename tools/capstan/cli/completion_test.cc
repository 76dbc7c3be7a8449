#include "tools/capstan/cli/completion.h"

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "tools/capstan/cli/completion_script.h"

namespace capstan::cli {
namespace {

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() : app_("A program.", "capstan") {
    app_.fallthrough();
    app_.add_option("--output,-o", text_, "what to write")->type_name("FORMAT");
    app_.add_option("--project,-p", text_, "a project")->type_name("PROJECT");
    app_.add_flag("--quiet", quiet_, "say less");
    app_.add_option("--secret", text_, "hidden")->group("");
    CLI::App* job = app_.add_subcommand("job", "Jobs");
    job->alias("jobs");
    CLI::App* list = job->add_subcommand("list", "List Jobs");
    list->add_option("--state", text_, "a state")->type_name("STATE");
    list->add_option("--queue", text_, "a Queue")->type_name("QUEUE");
    list->add_option("--config", text_, "a file")->type_name("FILE");
    list->add_option("--limit", text_, "a number")->type_name("NUMBER");
    CLI::App* get = job->add_subcommand("get", "Show one Job");
    get->add_option("job", text_, "a Job")->type_name("JOB");
    get->add_option("more", text_, "a folder")->type_name("DIR");
    app_.add_subcommand("secret", "hidden")->group("");
  }

  // `word=description …:fallback`.
  std::string At(const std::vector<std::string>& words) {
    asked_.clear();
    const Completion completion = Complete(
        app_, words,
        [this](const std::string& type, const std::map<std::string, std::string>& options) {
          asked_ = type;
          for (const auto& [name, value] : options) absl::StrAppend(&asked_, " ", name, "=", value);
          return std::vector<Candidate>{{"vision", "b"}, {"digits", "a"}};
        });
    return absl::StrCat(absl::StrJoin(completion.candidates, " ",
                                      [](std::string* out, const Candidate& candidate) {
                                        out->append(candidate.word);
                                      }),
                        completion.fallback == Completion::Fallback::kFiles     ? ":files"
                        : completion.fallback == Completion::Fallback::kFolders ? ":folders"
                                                                                : "");
  }

  std::string text_;
  bool quiet_ = false;
  CLI::App app_;
  std::string asked_;
};

TEST_F(CompletionTest, CommandsComeFromTheTree) {
  EXPECT_EQ(At({""}), "job");
  EXPECT_EQ(At({"j"}), "job");
  EXPECT_EQ(At({"x"}), "");
  EXPECT_EQ(At({}), "job");
  EXPECT_EQ(At({"job", ""}), "list get");
  EXPECT_EQ(At({"jobs", "l"}), "list");
  EXPECT_EQ(At({"job", "list", ""}), "");
  EXPECT_EQ(asked_, "");
}

TEST_F(CompletionTest, OptionsAreThoseOfTheCommandThenThoseOfAll) {
  EXPECT_EQ(At({"job", "list", "--"}),
            "--help --state --queue --config --limit --help --help --output --project --quiet")
      << "the hidden one is not shown";
  EXPECT_EQ(At({"job", "list", "--st"}), "--state");
  EXPECT_EQ(At({"job", "list", "--out"}), "--output");
}

TEST_F(CompletionTest, ValuesAreWhatThePlaceholderStandsFor) {
  EXPECT_EQ(At({"job", "list", "-o", "j"}), "json jsonpath=");
  EXPECT_EQ(At({"job", "list", "--output=cus"}),
            "--output=custom-columns= --output=custom-columns-file=");
  EXPECT_EQ(At({"job", "list", "--state", "run"}), "running");
  EXPECT_EQ(At({"job", "list", "--config", "x"}), ":files");
  EXPECT_EQ(At({"job", "list", "--limit", ""}), "digits vision") << "asked, and has no such names";
  EXPECT_EQ(asked_, "NUMBER limit=");
}

TEST_F(CompletionTest, NamesAreAskedOfThePlatformWithWhatWasTyped) {
  EXPECT_EQ(At({"job", "get", ""}), "digits vision");
  EXPECT_EQ(asked_, "JOB");
  EXPECT_EQ(At({"job", "get", "d"}), "digits");
  EXPECT_EQ(At({"-p", "vision", "job", "get", ""}), "digits vision");
  EXPECT_EQ(asked_, "JOB project=vision");
  EXPECT_EQ(At({"job", "get", "--project=x", "--quiet", ""}), "digits vision");
  EXPECT_EQ(asked_, "JOB project=x quiet=");
  EXPECT_EQ(At({"job", "get", "-pvision", ""}), "digits vision");
  EXPECT_EQ(asked_, "JOB project=vision");
  EXPECT_EQ(At({"job", "list", "--queue=v"}), "--queue=vision");
  EXPECT_EQ(At({"job", "get", "digits", ""}), ":folders") << "the second word is another one";
  EXPECT_EQ(At({"job", "get", "digits", "here", ""}), "");
  EXPECT_EQ(At({"job", "get", "--", "-"}), "");
}

TEST(FormatCompletionTest, OneLineEachThenWhatElse) {
  Completion completion;
  completion.candidates = {{"a", "two\nlines"}, {"b", ""}, {"bad\x1b", ""}};
  EXPECT_EQ(FormatCompletion(completion), "a\ttwo\\x0alines\nb\n:none\n");
  completion.candidates = {{"a", std::string(79, 'x') + "ä" + "y"}};
  completion.fallback = Completion::Fallback::kFiles;
  EXPECT_EQ(FormatCompletion(completion), "a\t" + std::string(79, 'x') + "…\n:files\n");
}

TEST(CompletionScriptTest, OneForEachShell) {
  for (const std::string& shell : CompletionShells()) {
    EXPECT_TRUE(absl::StrContains(CompletionScript(shell).value(), "__complete --")) << shell;
  }
  EXPECT_EQ(status::Reason(CompletionScript("tcsh").status()), "NO_SUCH_SHELL");
}

}  // namespace
}  // namespace capstan::cli
