#include "tools/capstan/cli/json_path.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "tools/capstan/cli/document.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;
using scheduler::v1::ListJobsResponse;

// Three Jobs: a runs since noon, b has failed twice, c waits and has no Tasks.
ListJobsResponse Sample() {
  ListJobsResponse list;
  const auto add = [&list](const char* name, Job::State state, int64_t generation, int64_t seconds,
                           int32_t nanos) {
    Job* job = list.add_jobs();
    job->set_name(name);
    job->set_state(state);
    job->set_generation(generation);
    job->mutable_create_time()->set_seconds(1'700'000'000 + seconds);
    job->mutable_create_time()->set_nanos(nanos);
    return job;
  };
  Job* a = add("a", Job::STATE_RUNNING, 1, 0, 500'000'000);
  a->mutable_spec()->set_queue("queues/q");
  a->mutable_spec()->set_priority(7);
  a->mutable_spec()->mutable_stop_grace()->set_seconds(90);
  (*a->mutable_spec()->mutable_labels())["team.x/y"] = "vision";
  for (int rank = 0; rank < 4; ++rank) {
    auto* task = a->add_tasks();
    task->set_rank(rank);
    task->set_node(absl::StrCat("n", rank % 2));
    task->set_pid(100 + rank);
  }
  Job* b = add("b", Job::STATE_FAILED, 10, 0, 0);
  b->set_message("bad \x1b[31m thing");
  b->add_tasks()->set_node("n0");
  add("c", Job::STATE_QUEUED, 9, 60, 0);
  return list;
}

Document Root() {
  static const ListJobsResponse* const list = new ListJobsResponse(Sample());
  std::vector<const google::protobuf::Message*> jobs;
  for (const Job& job : list->jobs()) jobs.push_back(&job);
  return ToDocument("jobs", jobs);
}

struct Case {
  const char* pattern;
  const char* expected;
};

TEST(JsonPathTest, TemplatesGiveWhatKubectlGives) {
  const Document root = Root();
  const Case cases[] = {
      {"{.items[*].name}", "a b c"},
      {"{.jobs[*].name}", "a b c"},
      {"{$.items[0].name}", "a"},
      {"{@.items[0]['name']}", "a"},
      {"{.items[-1].name}", "c"},
      {"{.items[0,2].name}", "a c"},
      {"{.items[0:2].name}", "a b"},
      {"{.items[1:].name}", "b c"},
      {"{.items[:-1].name}", "a b"},
      {"{.items[::2].name}", "a c"},
      {"{.items[-100:100].name}", "a b c"},
      {"{.items[7].name}", ""},
      {"{.items[*].absent}", ""},
      {"{.items[0].name.absent}", ""},
      {"{.items[0].spec['queue','priority']}", "queues/q 7"},
      {"{.items[0].spec.labels.team\\.x\\/y}", "vision"},
      {"{.items[0].spec.labels['team.x/y']}", "vision"},
      {"{.items[0].spec.labels}", "{\"team.x/y\":\"vision\"}"},
      {"{.items[0].tasks[1]}", "{\"rank\":1,\"node\":\"n1\",\"pid\":\"101\"}"},
      {"{..pid}", "100 101 102 103"},
      {"{.items[0]..node}", "n0 n1 n0 n1"},
      {"{.items[0].tasks[0].*}", "n0 100"},
      {"{.items[*].tasks[0].node}", "n0 n0"},
      {"names: {.items[*].name}!", "names: a b c!"},
      {"{\"a\\tb\\n\"}", "a\tb\n"},
      {"{'it\\'s'}", "it's"},
      {"{ .items[0].name \" is \" .items[0].state }", "a is STATE_RUNNING"},
      {"{range .items[*]}{.name}{\"\\t\"}{.generation}{\"\\n\"}{end}", "a\t1\nb\t10\nc\t9\n"},
      {"{range .items[*]}{.name}:{range .tasks[*]}{.node},{end};{end}", "a:n0,n1,n0,n1,;b:n0,;c:;"},
      {"{range .items[0:1]}{.name} of {$.items[1].name}{end}.", "a of b."},
      {"{range .absent[*]}{.name}{end}", ""},
      {"{range .items[*].name}<{@}>{end}", "<a><b><c>"},
  };
  for (const Case& c : cases) {
    const auto pattern = JsonPathTemplate::Parse(c.pattern);
    ASSERT_TRUE(pattern.ok()) << c.pattern << ": " << pattern.status();
    const auto text = pattern->Expand(root, /*for_terminal=*/false);
    ASSERT_TRUE(text.ok()) << c.pattern << ": " << text.status();
    EXPECT_EQ(*text, c.expected) << c.pattern;
  }
}

TEST(JsonPathTest, FiltersCompareByWhatValuesMean) {
  const Document root = Root();
  const Case cases[] = {
      {"@.state==\"STATE_FAILED\"", "b"},
      {"@.state!='STATE_FAILED'", "a c"},
      {"@.generation>9", "b"},
      {"@.generation>=9", "b c"},
      {"@.generation<10", "a c"},
      {"@.generation <= 1", "a"},
      {"9 < @.generation", "b"},
      {"@.generation == 10.0", "b"},
      {"@.create_time>\"2023-11-14T22:13:20Z\"", "a c"},
      {"@.create_time==\"2023-11-14T23:13:20+01:00\"", "b"},
      {"@.spec.stop_grace>\"1m\"", "a"},
      {"@.tasks", "a b"},
      {"!@.tasks", "c"},
      {"!(@.name==\"a\"||@.name==\"b\")", "c"},
      {"@.name==\"a\" || @.name==\"b\" && @.generation>10", "a"},
      {"(@.name==\"a\" || @.name==\"b\") && @.generation>1", "b"},
      {"@.tasks[*].node==\"n1\"", "a"},
      {"@.name==$.items[2].name", "c"},
      {"@.absent==\"x\"", ""},
      {"@.absent!=\"x\"", ""},
      {"@.tasks==\"x\"", ""},
      {"true==true", "a b c"},
  };
  for (const Case& c : cases) {
    const std::string text = absl::StrCat("{.items[?(", c.pattern, ")].name}");
    const auto pattern = JsonPathTemplate::Parse(text);
    ASSERT_TRUE(pattern.ok()) << text << ": " << pattern.status();
    EXPECT_EQ(pattern->Expand(root, /*for_terminal=*/false).value(), c.expected) << text;
  }
}

TEST(JsonPathTest, ErrorsNameThePositionAndWhatWasExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "character 1 of \"\": found the end, expected a path in braces"},
      {".items", "character 1 of \".items\": found '.', expected a path in braces"},
      {"{.items[*}", "character 10 of \"{.items[*}\": found '}', expected ',' or ']'"},
      {"{.items", "character 8"},
      {"{.items[x]}", "found 'x', expected a number"},
      {"{.items[0:1:0]}", "expected a step of 1 or more"},
      {"{.items[99999999999999999999]}", "expected a whole number"},
      {"{.items[?@.a]}", "found '@', expected '(' after '?'"},
      {"{.items[?(@.a]}", "found ']', expected"},
      {"{.items[?(@.a==)]}", "found ')', expected @, a path, text in quotes, a number"},
      {"{.items[?(@.a=1)]}", "found '=', expected one of == != < <= > >="},
      {"{.items[?(\"x\")]}", "expected one of =="},
      {"{.items[?(@.a &&)]}", "found ')'"},
      {"{\"abc}", "expected the end of the quoted text that begins at character 2"},
      {"{range .items[*]}{.name}", "found the end, expected {end}"},
      {"{.name}{end}", "there is no range to end"},
      {"{items}", "found 'i', expected '}', text in quotes, range, end, or a path"},
      {"{.a..}", "found '}', expected a name, '*' or '['"},
      {"{range}{end}", "found '}', expected a path"},
      {"{.a b}", "found 'b'"},
      {std::string(5000, '{'), "found 5000 bytes, expected at most 4096"},
      {absl::StrCat("{[?", std::string(100, '('), "]}"), "expected less nesting"},
      {absl::StrCat("{[?(", std::string(100, '!'), "@.a)]}"), "expected less nesting"},
  };
  for (const auto& [text, expected] : cases) {
    const auto pattern = JsonPathTemplate::Parse(text);
    EXPECT_EQ(status::Reason(pattern.status()), "INVALID_JSONPATH") << text;
    EXPECT_TRUE(absl::StrContains(std::string(pattern.status().message()), expected))
        << text << ": " << pattern.status();
  }
}

TEST(JsonPathTest, ALonePathNeedsNoBraces) {
  const Document root = Root();
  for (const char* text : {"items[0].name", ".items[0].name", "{.items[0].name}", "$.items[0].name",
                           "{ items[0].name }"}) {
    const auto path = JsonPath::Parse(text);
    ASSERT_TRUE(path.ok()) << text << ": " << path.status();
    const auto found = path->Find(root);
    ASSERT_EQ(found.value().size(), 1) << text;
    EXPECT_EQ(ValueText(*found->front()), "a") << text;
  }
  for (const char* text : {"", "{.a", ".a b", ".a}", "{range .a}"}) {
    EXPECT_EQ(status::Reason(JsonPath::Parse(text).status()), "INVALID_JSONPATH") << text;
  }
}

TEST(JsonPathTest, WhatMultipliesIsBounded) {
  std::string nested = "{..*}";
  for (int i = 0; i < 12; ++i) nested = absl::StrCat("{range $..*}", nested, "{end}");
  const auto ranges = JsonPathTemplate::Parse(nested);
  ASSERT_TRUE(ranges.ok()) << ranges.status();
  const Document root = Root();
  EXPECT_EQ(status::Reason(ranges->Expand(root, false).status()), "JSONPATH_TOO_LARGE");
}

TEST(JsonPathTest, ATerminalIsNotObeyed) {
  const auto pattern = JsonPathTemplate::Parse("{.items[1].message}{\"\\n\"}");
  ASSERT_TRUE(pattern.ok());
  EXPECT_EQ(pattern->Expand(Root(), true).value(), "bad \\x1b[31m thing\n");
  EXPECT_EQ(pattern->Expand(Root(), false).value(), "bad \x1b[31m thing\n");
}

TEST(JsonPathTest, ValuesCompareByWhatTheyMean) {
  EXPECT_LT(CompareValues("9", "10"), 0);
  EXPECT_EQ(CompareValues("1.0", "1"), 0);
  EXPECT_GT(CompareValues("9007199254740993", "9007199254740992"), 0);
  EXPECT_LT(CompareValues("90s", "2m"), 0);
  EXPECT_LT(CompareValues("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5Z"), 0);
  EXPECT_LT(CompareValues("abc", "abd"), 0);
}

}  // namespace
}  // namespace capstan::cli
