#include "integration/crash/judge.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "integration/crash/client.h"
#include "integration/platform/command.h"
#include "libs/audit/audit_file.h"
#include "libs/rpc/identity.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::integration {
namespace {

using event::v1::JobEvent;
using google::protobuf::util::JsonStringToMessage;

// Two of the longest pauses of an agent that telemetry did not answer.
constexpr absl::Duration kLogsClosedWithin = absl::Seconds(60);
// The pause of a scheduler whose archive did not answer, and the time that Jobs stay anyway.
constexpr absl::Duration kArchivedWithin = absl::Seconds(60);

}  // namespace

int JudgeLogs(TestPlatform& platform, const std::string& id, int ranks, const WitnessLog& log) {
  int lines = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int64_t generation = 1; generation <= log.last_generation(); ++generation) {
      const auto life = log.lives().find({generation, rank});
      if (life == log.lives().end()) continue;
      // The Job's end overtakes its last lines. Following ends once each log is closed, or says
      // that it waited for that in vain: after an outage an agent may pause for longer.
      CommandResult read;
      EXPECT_TRUE(platform.Await(
          [&] {
            read = platform.Capstan({"job", "logs", id, "--follow", "--rank", absl::StrCat(rank),
                                     "--generation", absl::StrCat(generation)});
            return read.exit_code == 0 && read.err.empty();
          },
          kLogsClosedWithin))
          << id << " generation " << generation << " rank " << rank << ": " << read.err;
      const std::string& text = read.out;
      int64_t expected = life->second.first_step;
      for (size_t at = 0; (at = text.find("step ", at)) != std::string::npos;) {
        at += 5;
        const int64_t step = atoll(text.c_str() + at);
        if (step != expected) {
          ADD_FAILURE() << id << " generation " << generation << " rank " << rank << " has line "
                        << step << " where " << expected << " was expected\n"
                        << text;
          return lines;
        }
        ++expected;
        ++lines;
      }
      if (generation == log.last_generation()) {
        EXPECT_EQ(expected, kSteps + 1)
            << id << " generation " << generation << " rank " << rank << " lacks lines at its end\n"
            << text;
      }
    }
  }
  return lines;
}

void JudgeEvents(TestPlatform& platform, const std::string& id, int ranks, const WitnessLog& log) {
  std::vector<JobEvent> events;
  std::string text;
  const auto read = [&] {
    text = platform.Capstan({"job", "events", id, "-o", "json"}).out;
    events.clear();
    std::string one;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      absl::StrAppend(&one, line, "\n");
      if (line != "}") continue;
      // A gap record would be none.
      if (!JsonStringToMessage(one, &events.emplace_back()).ok()) return false;
      one.clear();
    }
    return !events.empty() && events.back().state() == "SUCCEEDED";
  };
  // They are on their way for as long as telemetry is not back.
  EXPECT_TRUE(platform.Await(read, kLogsClosedWithin)) << id << " has not all events:\n" << text;
  if (events.empty()) return;
  EXPECT_EQ(events.front().state(), "QUEUED") << text;
  std::map<std::string, int> times;
  std::map<int64_t, int> starts;
  std::map<std::pair<int64_t, int>, int> ends;
  int successes = 0;
  int64_t generation = 0;
  for (const JobEvent& event : events) {
    EXPECT_EQ(++times[event.SerializeAsString()], 1) << "twice: " << event.ShortDebugString();
    EXPECT_GE(event.generation(), generation) << text;
    generation = event.generation();
    if (event.has_task()) {
      if (event.task().has_end()) ++ends[{generation, event.task().key().index()}];
      continue;
    }
    if (event.reason() == "STARTED") ++starts[generation];
    if (event.state() == "SUCCEEDED") ++successes;
  }
  EXPECT_EQ(successes, 1) << text;
  // No rank starts before the decision that it may is stored, and with it its event.
  for (const auto& [life, lived] : log.lives()) {
    EXPECT_EQ(starts[life.first], 1) << id << " generation " << life.first << "\n" << text;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ((ends[{log.last_generation(), rank}]), 1) << id << " rank " << rank << "\n" << text;
  }
}

void JudgeAudit(TestPlatform& platform, const std::string& id) {
  CommandResult verified;
  // A head is signed a while after the first start.
  EXPECT_TRUE(platform.Await([&] {
    verified = platform.Capstan({"audit", "verify", "--print"});
    return verified.exit_code == 0;
  })) << verified.err;
  int made = 0;
  for (const absl::string_view line : absl::StrSplit(verified.out, '\n')) {
    if (absl::StrContains(line, " ok ") && absl::StrContains(line, "/CreateProject ") &&
        absl::StrContains(line, absl::StrCat(" projects/", id, " "))) {
      ++made;
    }
  }
  EXPECT_EQ(made, 1) << "the chain has the making of Project " << id << " so often\n"
                     << verified.out;
}

void JudgeSubscriber(TestPlatform& platform, const std::string& id, int lines,
                     Subscriber& subscriber) {
  // The lines of a Job whose log is closed are in its Stream.
  EXPECT_TRUE(platform.Await([&] {
    return subscriber.Read() && subscriber.Lines("step ") >= lines;
  })) << id
      << "'s subscriber has read " << subscriber.Lines("step ") << " lines of " << lines;
  EXPECT_EQ(subscriber.Lines("step "), lines) << id << "'s subscriber";
  EXPECT_EQ(
      platform.MustCapstan({"subscription", "get", id, "-o", "jsonpath={.acknowledged_offset}"}),
      absl::StrCat(subscriber.last()));
  EXPECT_NE(platform.Capstan({"subscription", "get", absl::StrCat(id, "-leaves")}).exit_code, 0)
      << "a deleted subscription is there";
}

void JudgeChains(TestPlatform& platform, const std::vector<std::string>& jobs) {
  for (const dev::PartSpec& part : dev::AllParts()) {
    // Its chain is in its store.
    if (part.name == "credentials") continue;
    std::map<std::string, int> made;
    const auto read = audit::VerifyFile(
        absl::StrCat(platform.data_dir(), "/", part.name, "/audit.chain"), part.service,
        absl::nullopt, [&](const event::v1::AuditRecord& record) {
          if (absl::StrContains(record.act(), "Subscription") && record.outcome_code() == 0) {
            ++made[absl::StrCat(record.act().substr(record.act().rfind('/') + 1), " ",
                                record.resource())];
          }
        });
    EXPECT_TRUE(read.ok()) << "the audit chain of " << part.name << ": " << read.status();
    if (part.name != "telemetry") continue;
    // Once for each time that the act may have happened, which a lost answer makes twice.
    for (const std::string& id : jobs) {
      for (const std::string& subscription : {id, absl::StrCat(id, "-leaves")}) {
        EXPECT_GE((made[absl::StrCat("CreateSubscription projects/default/subscriptions/",
                                     subscription)]),
                  1);
      }
      EXPECT_GE(
          (made[absl::StrCat("DeleteSubscription projects/default/subscriptions/", id, "-leaves")]),
          1);
    }
  }
}

void JudgeIdentities(TestPlatform& platform) {
  for (const dev::PartSpec& part : dev::AllParts()) {
    const auto kept =
        rpc::Identity::Load(absl::StrCat(platform.data_dir(), "/", part.name, "/identity"));
    EXPECT_TRUE(kept.ok()) << "what " << part.name << " keeps: " << kept.status();
  }
}

void JudgeArchive(TestPlatform& platform, const std::vector<std::string>& jobs) {
  std::string left;
  EXPECT_TRUE(platform.Await(
      [&] {
        left = platform.MustCapstan({"job", "list", "-o", "name"});
        return left.empty();
      },
      kArchivedWithin))
      << "not in the archive:\n"
      << left;
  const std::string all = platform.MustCapstan({"job", "list", "--since", "1d", "-o", "name"});
  const std::vector<std::string> names = absl::StrSplit(all, '\n', absl::SkipEmpty());
  EXPECT_EQ(names.size(), jobs.size()) << all;
  for (const std::string& id : jobs) {
    EXPECT_EQ(std::count(names.begin(), names.end(), absl::StrCat("projects/default/jobs/", id)), 1)
        << id << " is in the archive so often\n"
        << all;
  }
}

}  // namespace capstan::integration
