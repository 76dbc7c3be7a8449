#include "integration/crash/crash_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "integration/crash/faults.h"
#include "libs/crash_point/crash_plan.h"
#include "libs/safe_path/folder_names.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/store.h"
#include "proto/capstan/event/v1/job_event.pb.h"

namespace capstan::integration {
namespace {

using event::v1::JobEvent;
using google::protobuf::util::JsonStringToMessage;
using scheduler::v1::Job;

constexpr char kProgram[] = "integration/crash/capstan_armed";
// Short enough that a Job takes two seconds, long enough for several checkpoints.
constexpr int kSteps = 30;
constexpr absl::Duration kStep = absl::Milliseconds(40);
constexpr int kCheckpointEvery = 5;
// Nothing that goes wrong in a run may hold its Job up for so long.
constexpr absl::Duration kBound = absl::Seconds(120);
constexpr absl::Duration kClearedWithin = absl::Seconds(30);
// Two of the longest pauses of an agent that telemetry did not answer.
constexpr absl::Duration kLogsClosedWithin = absl::Seconds(60);
constexpr absl::Duration kCallBound = absl::Seconds(4);
constexpr absl::Duration kPoll = absl::Milliseconds(150);

std::string PlanFolder(const TestPlatform& platform) {
  return absl::StrCat(platform.folder(), "/", kCrashPlanFolder);
}

// Who uses the platform meanwhile: repeats what was not answered, and starts the platform again
// once its supervisor is gone. A thread of its own beside that of the faults.
class Client {
 public:
  Client(TestPlatform* platform, const Scenario& scenario, std::string id)
      : platform_(platform), scenario_(scenario), id_(std::move(id)) {}

  // Until the Job has ended, or GiveUp.
  void Run() {
    BringUp();
    const std::string source = absl::StrCat(platform_->data_dir(), "/buckets/", id_);
    mkdir(absl::StrCat(platform_->data_dir(), "/buckets").c_str(), 0700);
    mkdir(source.c_str(), 0700);
    for (const char* name : {"one", "two"}) {
      std::ofstream(absl::StrCat(source, "/", name)) << id_ << " " << name << "\n";
    }
    // Audited, in the act's own transaction.
    Create({"project", "create", id_});
    Create({"dataset", "create", id_, "--source", source});
    const std::string file = absl::StrCat(platform_->folder(), "/", id_, ".yaml");
    std::ofstream(file) << Yaml();
    Create({"job", "submit", file});
    submitted_ = true;
    while (!given_up_.HasBeenNotified()) {
      const CommandResult got = Call({"job", "get", id_, "-o", "json"});
      // What was answered is there, whatever happened meanwhile.
      if (got.exit_code != 0 && absl::StrContains(got.err, "NOT_FOUND")) {
        ADD_FAILURE() << id_ << " was submitted and is gone: " << got.err;
        return;
      }
      Job job;
      if (got.exit_code == 0 && JsonStringToMessage(got.out, &job).ok() &&
          job.state() >= Job::STATE_SUCCEEDED) {
        return;
      }
      given_up_.WaitForNotificationWithTimeout(kPoll);
    }
  }
  void GiveUp() { given_up_.Notify(); }
  bool submitted() const { return submitted_; }

 private:
  void BringUp() {
    // It may be killed while it starts.
    while (!platform_->Part("supervisor").has_value() && !given_up_.HasBeenNotified()) {
      const CommandResult up =
          platform_->Capstan({"dev", "up", "--detach", "--config", platform_->config_file()});
      if (up.exit_code != 0) last_error_ = up.err;
    }
  }

  CommandResult Call(std::vector<std::string> arguments) {
    BringUp();
    arguments.insert(arguments.begin(), {"--time-out", absl::FormatDuration(kCallBound)});
    return platform_->Capstan(arguments);
  }

  // Until it is answered: with yes, or, if a former answer was lost, that it is there.
  void Create(const std::vector<std::string>& arguments) {
    while (!given_up_.HasBeenNotified()) {
      const CommandResult made = Call(arguments);
      if (made.exit_code == 0) return;
      if (absl::StrContains(made.err, "exists already") ||
          absl::StrContains(made.err, "already exists")) {
        return;
      }
      last_error_ = made.err;
      given_up_.WaitForNotificationWithTimeout(kPoll);
    }
    ADD_FAILURE() << absl::StrJoin(arguments, " ") << " was never answered: " << last_error_;
  }

  std::string Yaml() const {
    // What the Job was promised is checked by itself; a word that no witness says fails the test.
    // That it has an identity is part of it: credentials is never away for the half minute after
    // which a Task goes without.
    const std::string check = absl::StrCat(
        "grep -q '", id_, " one' $CAPSTAN_DATASET_IN/one && grep -q '", id_,
        " two' $CAPSTAN_DATASET_IN/two && ",
        "test -s $CAPSTAN_SVID_DIR/svid.pem || echo broken >> $WITNESS_FILE; exec ./witness");
    std::string yaml = absl::StrCat(
        "job_id: ", id_,
        "\nspec:\n  task_groups:\n    - name: w\n      replicas: ", scenario_.ranks,
        "\n      argv: [/bin/sh, -c, \"", check,
        "\"]\n      env:\n        WITNESS_FILE: ", platform_->folder(),
        "/witness/log\n        WITNESS_STEPS: \"", kSteps, "\"\n        WITNESS_STEP_MS: \"",
        absl::ToInt64Milliseconds(kStep), "\"\n        WITNESS_CHECKPOINT_EVERY: \"",
        kCheckpointEvery,
        "\"\n        WITNESS_ORPHAN: \"1\"\n      resources: {cpu: 10m, memory: 32Mi}\n"
        "  datasets: [{dataset: ",
        id_,
        ", alias: in}]\n  retry: {max_restarts: 20, initial_back_off: 0.1s, max_back_off: 0.5s}\n"
        "  stop_grace: 1s\n  bundle: ",
        platform_->folder(), "/bundle\n  output: true\n");
    if (scenario_.short_fence) {
      absl::StrAppend(&yaml, "  fence_after: ", absl::FormatDuration(kShortFence), "\n");
    }
    return yaml;
  }

  TestPlatform* const platform_;
  const Scenario& scenario_;
  const std::string id_;
  absl::Notification given_up_;
  std::atomic<bool> submitted_{false};
  std::string last_error_;
};

// Every line of the generations that wrote anything: in order, none twice, none missing before the
// last, and of the generation that ended well every one.
void JudgeLogs(TestPlatform& platform, const std::string& id, int ranks, const WitnessLog& log) {
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
          return;
        }
        ++expected;
      }
      if (generation == log.last_generation()) {
        EXPECT_EQ(expected, kSteps + 1)
            << id << " generation " << generation << " rank " << rank << " lacks lines at its end\n"
            << text;
      }
    }
  }
}

// Every change that was stored is told once and in order, whoever died between the store and the
// Stream: what was decided before a Task could start, and how each Task of the last generation
// ended.
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

// What was acknowledged is in the audit chain, once, and the chain is whole.
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

}  // namespace

CrashPlatform::CrashPlatform(absl::string_view config, KeysBelow keys_of_services)
    : platform_(std::make_unique<TestPlatform>(
          absl::StrCat(config, "fencing: {min_fence_after: 1s, replace_margin: 1s}"), kProgram)),
      keys_of_services_(std::move(keys_of_services)) {
  for (const char* name : {"", "/claimed", "/seen"}) {
    EXPECT_EQ(mkdir(absl::StrCat(PlanFolder(*platform_), name).c_str(), 0700), 0);
  }
}

CrashPlatform::~CrashPlatform() {
  JudgeJobs();
  JudgeStores();
  if (keys_of_services_ == nullptr) JudgeLeases();
}

void CrashPlatform::Run(const Scenario& scenario) {
  SCOPED_TRACE(scenario.Describe());
  const std::string id = absl::StrCat("run-", scenario.seed);
  jobs_.push_back(id);
  platform_->ForgetWitnesses();
  for (const std::string& name : FolderNames(PlanFolder(*platform_) + "/claimed")) {
    unlink(absl::StrCat(PlanFolder(*platform_), "/claimed/", name).c_str());
  }
  Faults faults(platform_.get(), PlanFolder(*platform_), &scenario, &id);
  faults.Drive(/*submitted=*/false);
  Client client(platform_.get(), scenario, id);
  std::atomic<bool> done{false};
  std::thread thread([&] {
    client.Run();
    done = true;
  });
  const bool ended = platform_->Await(
      [&] {
        faults.Drive(client.submitted());
        return done.load();
      },
      kBound);
  if (!ended) {
    ADD_FAILURE() << id << " did not end";
    client.GiveUp();
  }
  faults.End();
  thread.join();
  counts_.drawn += static_cast<int>(scenario.faults.size());
  counts_.made += faults.made();
  counts_.made_at_points += faults.made_at_points();
  for (const Fault& fault : scenario.faults) {
    if (fault.kind == Fault::Kind::kPoint) ++counts_.drawn_at_points;
  }
  if (!platform_->Part("supervisor").has_value()) platform_->Up();

  EXPECT_TRUE(platform_->AwaitReady()) << platform_->Capstan({"dev", "status"}).out;
  const Job job = platform_->Get(id);
  const WitnessLog log = platform_->Witnesses();
  EXPECT_EQ(job.state(), Job::STATE_SUCCEEDED) << job.DebugString();
  EXPECT_EQ(absl::StrJoin(log.Violations(), "\n"), "");
  EXPECT_EQ(log.last_generation(), job.generation());
  EXPECT_EQ(log.Count("end", job.generation()), scenario.ranks);
  EXPECT_TRUE(absl::StrContains(platform_->MustCapstan({"job", "output", id}),
                                absl::StrCat("checkpoint ", kSteps)));
  JudgeLogs(*platform_, id, scenario.ranks, log);
  JudgeEvents(*platform_, id, scenario.ranks, log);
  JudgeAudit(*platform_, id);
  EXPECT_TRUE(platform_->Await(
      [&] { return FolderNames(platform_->data_dir() + "/node_agent/tasks").empty(); },
      kClearedWithin))
      << "folders of ended Tasks stay";
  if (::testing::Test::HasFailure()) {
    ADD_FAILURE() << platform_->Capstan({"job", "explain", id}).out
                  << platform_->Capstan({"job", "events", id}).out;
  }
}

std::set<std::string> CrashPlatform::Seen() const {
  const std::vector<std::string> names = FolderNames(PlanFolder(*platform_) + "/seen");
  return std::set<std::string>(names.begin(), names.end());
}

void CrashPlatform::JudgeJobs() {
  if (!platform_->Part("supervisor").has_value()) return;
  for (const std::string& id : jobs_) {
    EXPECT_EQ(platform_->Get(id).state(), Job::STATE_SUCCEEDED) << id;
    JudgeAudit(*platform_, id);
  }
  // Every record of every store can be read and fits the others; it exits with 1 otherwise.
  EXPECT_TRUE(absl::StrContains(platform_->MustCapstan({"admin", "check"}), "scheduler: sound"));
}

std::unique_ptr<store::SqliteConnection> CrashPlatform::OpenStore(const std::string& part) const {
  auto db = store::SqliteConnection::Open(
      absl::StrCat(platform_->data_dir(), "/", part, "/store.sqlite"), false, false);
  EXPECT_TRUE(db.ok()) << db.status();
  return db.ok() ? *std::move(db) : nullptr;
}

void CrashPlatform::JudgeStores() {
  const auto keys = [&](const std::string& part, const std::string& kind) {
    const std::string prefix = absl::StrCat("/capstan/", part, "/v1/", kind, "/");
    // Executor and agent have files of their own wherever the services keep theirs.
    if (keys_of_services_ != nullptr && part != "executor" && part != "node_agent") {
      return keys_of_services_(prefix);
    }
    std::vector<std::string> found;
    const auto db = OpenStore(part);
    if (db == nullptr) return found;
    const std::string end = store::PrefixEnd(prefix);
    store::SqliteStatement row = db->Query("SELECT key FROM current WHERE key >= ? AND key < ?");
    row.BindBlob(prefix).BindBlob(end);
    while (row.Next()) found.push_back(row.Blob(0));
    return found;
  };
  for (const auto& [part, kind] :
       std::vector<std::pair<std::string, std::string>>{{"executor", "desired"},
                                                        {"executor", "observed"},
                                                        {"executor", "uids"},
                                                        {"node_agent", "tasks"},
                                                        {"node_agent", "cursors"},
                                                        {"node_agent", "orders"},
                                                        {"scheduler", "pin_releases"},
                                                        {"data_loader", "pin"}}) {
    std::vector<std::string> left;
    platform_->Await(
        [&, part = part, kind = kind] {
          left = keys(part, kind);
          return left.empty();
        },
        kClearedWithin);
    EXPECT_EQ(absl::StrJoin(left, "\n"), "") << "left in the store of " << part;
  }
}

void CrashPlatform::JudgeLeases() {
  for (const char* part : {"credentials", "scheduler", "data_loader", "cluster_manager"}) {
    std::vector<int64_t> left;
    platform_->Await(
        [&] {
          left.clear();
          const auto db = OpenStore(part);
          if (db == nullptr) return true;
          store::SqliteStatement row = db->Query(
              "SELECT id FROM leases WHERE id NOT IN (SELECT lease FROM current WHERE lease != 0)");
          while (row.Next()) left.push_back(row.Int(0));
          EXPECT_TRUE(row.status().ok()) << row.status();
          return left.empty();
        },
        kClearedWithin);
    EXPECT_EQ(absl::StrJoin(left, ", "), "") << "leases of nobody in the store of " << part;
  }
}

}  // namespace capstan::integration
