#include "integration/crash/client.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::integration {
namespace {

using google::protobuf::util::JsonStringToMessage;
using scheduler::v1::Job;

constexpr absl::Duration kStep = absl::Milliseconds(40);
constexpr int kCheckpointEvery = 5;
constexpr absl::Duration kCallBound = absl::Seconds(4);
constexpr absl::Duration kPoll = absl::Milliseconds(150);

}  // namespace

Client::Client(TestPlatform* platform, const Scenario& scenario, std::string id)
    : platform_(platform),
      scenario_(scenario),
      id_(std::move(id)),
      subscriber_(id_, [this](const std::vector<std::string>& line) { return Call(line); }) {}

void Client::Run() {
  BringUp();
  // Audited, in the act's own transaction.
  Create({"project", "create", id_});
  // Has the newest head of that chain signed.
  Must({"audit", "verify"}, {});
  const std::string leaves = absl::StrCat(id_, "-leaves");
  MakeDataset(leaves);
  Must({"load", "start", leaves, "--watch", "--retry-failed"}, {});
  MakeDataset(id_);
  Create({"subscription", "create", id_, id_});
  // One that is gone again.
  Create({"subscription", "create", leaves, id_});
  Must({"subscription", "delete", leaves}, {"NOT_FOUND", "not found"});
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
    subscriber_.Read();
    given_up_.WaitForNotificationWithTimeout(kPoll);
  }
}

void Client::BringUp() {
  // It may be killed while it starts.
  while (!platform_->Part("supervisor").has_value() && !given_up_.HasBeenNotified()) {
    const CommandResult up =
        platform_->Capstan({"dev", "up", "--detach", "--config", platform_->config_file()});
    if (up.exit_code != 0) last_error_ = up.err;
  }
}

CommandResult Client::Call(std::vector<std::string> arguments) {
  BringUp();
  arguments.insert(arguments.begin(), {"--time-out", absl::FormatDuration(kCallBound)});
  return platform_->Capstan(arguments);
}

void Client::Must(const std::vector<std::string>& arguments, const std::vector<std::string>& done) {
  while (!given_up_.HasBeenNotified()) {
    const CommandResult made = Call(arguments);
    if (made.exit_code == 0) return;
    if (std::any_of(done.begin(), done.end(),
                    [&](const std::string& word) { return absl::StrContains(made.err, word); })) {
      return;
    }
    last_error_ = made.err;
    given_up_.WaitForNotificationWithTimeout(kPoll);
  }
  ADD_FAILURE() << absl::StrJoin(arguments, " ") << " was never answered: " << last_error_;
}

void Client::Create(const std::vector<std::string>& arguments) {
  Must(arguments, {"exists already", "already exists"});
}

void Client::MakeDataset(const std::string& name) {
  const std::string buckets = absl::StrCat(platform_->data_dir(), "/buckets");
  const std::string source = absl::StrCat(buckets, "/", name);
  mkdir(buckets.c_str(), 0700);
  mkdir(source.c_str(), 0700);
  for (const char* object : {"one", "two"}) {
    std::string text = absl::StrCat(name, " ", object, "\n");
    text.resize(kVersionBytes / 2, '.');
    std::ofstream(absl::StrCat(source, "/", object)) << text;
  }
  Create({"dataset", "create", name, "--source", source});
}

std::string Client::Yaml() const {
  // What the Job was promised is checked by itself; a word that no witness says fails the test.
  // That it has an identity is part of it: credentials is never away for the half minute after
  // which a Task goes without.
  const std::string check = absl::StrCat(
      "grep -q '", id_, " one' $CAPSTAN_DATASET_IN/one && grep -q '", id_,
      " two' $CAPSTAN_DATASET_IN/two && ",
      "test -s $CAPSTAN_SVID_DIR/svid.pem || echo broken >> $WITNESS_FILE; exec ./witness");
  std::string yaml = absl::StrCat(
      "job_id: ", id_, "\nspec:\n  task_groups:\n    - name: w\n      replicas: ", scenario_.ranks,
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

}  // namespace capstan::integration
