#include "tools/capstan/cli/printer.h"

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "tools/capstan/cli/custom_columns.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/output_format.h"

namespace capstan::cli {
namespace {

using scheduler::v1::ExplainJobResponse;
using scheduler::v1::Job;

class PrinterTest : public ::testing::Test {
 protected:
  PrinterTest() {
    invocation_.out = &out_;
    invocation_.err = &err_;
    for (const auto& [name, generation] : {std::pair("b", 10), std::pair("a", 9)}) {
      jobs_.emplace_back().set_name(name);
      jobs_.back().set_generation(generation);
      jobs_.back().mutable_spec()->set_queue("queues/q");
    }
  }

  std::string List(const std::string& format) {
    out_.str("");
    const absl::Status parsed = ParseOutput(format, &invocation_.output);
    EXPECT_TRUE(parsed.ok()) << parsed;
    const absl::Status printed = PrintList<Job>(
        invocation_, "jobs", jobs_,
        {{"NAME", [](const Job& job) { return job.name(); }},
         {"QUEUE", [](const Job& job) { return job.spec().queue(); }, /*wide=*/true}});
    EXPECT_TRUE(printed.ok()) << printed;
    return out_.str();
  }
  std::string One(const std::string& format) {
    out_.str("");
    EXPECT_TRUE(ParseOutput(format, &invocation_.output).ok());
    const absl::Status printed = PrintResource<Job>(
        invocation_, jobs_[0], [](const Job&) { return std::string("described\n"); });
    EXPECT_TRUE(printed.ok()) << printed;
    return out_.str();
  }

  std::vector<Job> jobs_;
  std::ostringstream out_;
  std::ostringstream err_;
  Invocation invocation_;
};

TEST_F(PrinterTest, EachFormatOfAList) {
  EXPECT_EQ(List("table"), "NAME\nb\na\n");
  EXPECT_EQ(List("wide"), "NAME  QUEUE\nb     queues/q\na     queues/q\n");
  EXPECT_EQ(List("name"), "b\na\n");
  EXPECT_TRUE(absl::StartsWith(List("json"), "{\n  \"jobs\": [\n"));
  EXPECT_TRUE(absl::StartsWith(List("yaml"), "jobs:\n  - name: b\n"));
  EXPECT_EQ(List("jsonpath={.items[*].name}"), "b a");
  EXPECT_EQ(List("custom-columns=N:.name,G:.generation,X:.absent"),
            "N  G   X\nb  10  <none>\na  9   <none>\n");
  EXPECT_EQ(List("=json"), List("json"));
}

TEST_F(PrinterTest, EachFormatOfOneResource) {
  EXPECT_EQ(One("table"), "described\n");
  EXPECT_EQ(One("wide"), "described\n");
  EXPECT_EQ(One("name"), "b\n");
  EXPECT_EQ(One("jsonpath={.spec.queue}"), "queues/q");
  EXPECT_EQ(One("custom-columns=N:.name"), "N\nb\n");
}

TEST_F(PrinterTest, SortsByWhatIsFound) {
  invocation_.output.sort_by = JsonPath::Parse(".generation").value();
  EXPECT_EQ(List("name"), "a\nb\n");
  EXPECT_EQ(List("table"), "NAME\na\nb\n");
  EXPECT_EQ(List("jsonpath={.items[*].name}"), "a b");
  jobs_.emplace_back().set_name("without");
  EXPECT_EQ(List("name"), "without\na\nb\n");
}

TEST_F(PrinterTest, HeadersCanBeLeftOut) {
  invocation_.output.headers = false;
  EXPECT_EQ(List("table"), "b\na\n");
  EXPECT_EQ(List("wide"), "b  queues/q\na  queues/q\n");
  EXPECT_EQ(List("custom-columns=A LONG HEADER:.name,G:.generation"), "b  10\na  9\n");
}

TEST_F(PrinterTest, AnEmptyListIsToldToPeopleOnly) {
  jobs_.clear();
  EXPECT_EQ(List("table"), "");
  EXPECT_EQ(err_.str(), "none\n");
  EXPECT_EQ(List("name"), "");
  EXPECT_EQ(List("json"), "{\n  \"jobs\": []\n}\n");
  EXPECT_EQ(List("jsonpath={.items[*].name}"), "");
}

TEST_F(PrinterTest, OnATerminalATemplateEndsItsLine) {
  invocation_.out_terminal.interactive = true;
  EXPECT_EQ(List("jsonpath={.items[*].name}"), "b a\n");
  EXPECT_EQ(List("jsonpath={.items[*].name}{\"\\n\"}"), "b a\n");
}

TEST_F(PrinterTest, WhatHasNoNameIsRefused) {
  ASSERT_TRUE(ParseOutput("name", &invocation_.output).ok());
  const absl::Status status = PrintMessage(invocation_, ExplainJobResponse());
  EXPECT_EQ(status::Reason(status), "NO_NAME");
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kInvalidInput);
}

TEST_F(PrinterTest, ChangesFollowEachOther) {
  ASSERT_TRUE(ParseOutput("yaml", &invocation_.output).ok());
  EXPECT_TRUE(absl::StartsWith(RenderChange(invocation_, jobs_[0]), "---\nname: b\n"));
  ASSERT_TRUE(ParseOutput("custom-columns=N:.name,G:.generation", &invocation_.output).ok());
  EXPECT_EQ(RenderChange(invocation_, jobs_[0]), "b  10");
}

TEST(OutputFormatTest, WrongFormatsSayWhatIsExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"xml", "found 'xml', expected one of table, wide, json, yaml, name, custom-columns=…"},
      {"", "found ''"},
      {"jsonpath={.a", "character 4"},
      {"custom-columns=NAME", "found 'NAME', expected HEADER:path"},
      {"custom-columns=", "found '', expected HEADER:path"},
      {"custom-columns=NAME:", "expected HEADER:path"},
      {"custom-columns=A:.a,B:.b[", "column B: jsonpath: at character 4"},
  };
  for (const auto& [text, expected] : cases) {
    OutputOptions options;
    const absl::Status status = ParseOutput(text, &options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(std::string(status.message()), expected)) << status;
    EXPECT_EQ(options.format, OutputFormat::kTable) << "nothing is partly applied";
  }
}

TEST(OutputFormatTest, AColumnsFileIsReadLater) {
  const std::string file = ::testing::TempDir() + "/columns";
  OutputOptions options;
  ASSERT_TRUE(ParseOutput("custom-columns-file=" + file, &options).ok());
  EXPECT_EQ(status::Reason(LoadColumnsFile(&options)), "FILE_NOT_READABLE");
  std::ofstream(file) << "NAME GEN\n.name\n";
  EXPECT_TRUE(absl::StrContains(std::string(LoadColumnsFile(&options).message()),
                                "found 2 headers and 1 paths"));
  std::ofstream(file) << "NAME   GEN\n.name  .generation\n";
  ASSERT_TRUE(LoadColumnsFile(&options).ok());
  EXPECT_EQ(options.columns->headers(), (std::vector<std::string>{"NAME", "GEN"}));
}

TEST(CustomColumnsTest, ACommaInBracketsBelongsToThePath) {
  const auto columns = CustomColumns::Parse("A:.items[0,1].name,B:.x['a,b'],C:.c");
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ(columns->headers(), (std::vector<std::string>{"A", "B", "C"}));
}

}  // namespace
}  // namespace capstan::cli
