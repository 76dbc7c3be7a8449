#include "tools/capstan/cli/man_page.h"

#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace capstan::cli {
namespace {

TEST(ManPageTest, APageForEachCommand) {
  CLI::App app("Runs jobs.", "capstan");
  std::string text;
  CLI::App* job = app.add_subcommand("job", "Jobs");
  CLI::App* get = job->add_subcommand("get", "Show one Job");
  get->add_option("job", text, "its id")->type_name("JOB")->required();
  get->add_option("--output,-o", text, "what to write")->type_name("FORMAT");
  get->footer("Exits with 0.\nExamples:\n  capstan job get digits -o 'jsonpath={\"\\n\"}'\n");
  app.add_subcommand("hidden", "")->group("");
  std::map<std::string, std::string> pages;
  for (const ManPage& page : ManPages(app, absl::FromUnixSeconds(0))) {
    pages[page.file] = page.text;
  }
  ASSERT_EQ(pages.size(), 3);
  EXPECT_EQ(pages["capstan-job-get.1"],
            ".TH CAPSTAN\\-JOB\\-GET 1 1970-01-01 Capstan \"Capstan manual\"\n"
            ".SH NAME\n"
            "capstan\\-job\\-get \\- Show one Job\n"
            ".SH SYNOPSIS\n"
            "\\fBcapstan job get\\fR \\fIJOB\\fR [\\fIOPTION\\fR ...]\n"
            ".SH OPTIONS\n"
            ".TP\n"
            "\\fIJOB\\fR\n"
            "its id\n"
            ".TP\n"
            "\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n"
            "Print this help message and exit\n"
            ".TP\n"
            "\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIFORMAT\\fR\n"
            "what to write\n"
            ".SH NOTES\n"
            "Exits with 0.\n"
            ".SH EXAMPLES\n"
            ".nf\n"
            "capstan job get digits \\-o \\(aqjsonpath={\"\\en\"}\\(aq\n"
            ".fi\n"
            ".SH SEE ALSO\n"
            "\\fBcapstan\\-job\\fR(1) for the options that every command takes,\n"
            "\\fBcapstan help exit\\-codes\\fR for the exit codes\n");
  EXPECT_TRUE(absl::StrContains(pages["capstan-job.1"],
                                ".SH COMMANDS\n.TP\n\\fBget\\fR\nShow one Job; see "
                                "\\fBcapstan\\-job\\-get\\fR(1)\n"))
      << pages["capstan-job.1"];
  EXPECT_FALSE(absl::StrContains(pages["capstan.1"], "hidden"));
}

TEST(ManPageTest, TextIsNeverARequestOrAnEscape) {
  EXPECT_EQ(RoffText(".SH x"), "\\&.SH x");
  EXPECT_EQ(RoffText("'x\n.y"), "\\&\\(aqx\n\\&.y");
  EXPECT_EQ(RoffText("…ä\xff."), "\\[u2026]\\[u00E4]?.");
  EXPECT_EQ(RoffText("a\\fBb-c `d` ^~"), "a\\efBb\\-c \\(gad\\(ga \\(ha\\(ti");
}

}  // namespace
}  // namespace capstan::cli
