// Fakes of the agent's ports, for the tests of its engine and for simulations. Each answers by
// posting to the strand, and fails on command.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_PORTS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_PORTS_H_

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/mig/placed_instance.h"
#include "libs/status/error.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/data_access.h"
#include "services/node_agent/ports/log_sink.h"
#include "services/node_agent/ports/mig_devices.h"
#include "services/node_agent/ports/node_probe.h"
#include "services/node_agent/ports/port_probe.h"
#include "services/node_agent/ports/task_identity.h"
#include "services/node_agent/ports/task_sockets.h"
#include "services/node_agent/ports/workspace.h"

namespace capstan::node_agent {

// Outputs fenced by generation, as data_loader keeps them. `calls` is what was asked, in order.
class FakeDataAccess final : public DataAccess {
 public:
  explicit FakeDataAccess(Strand* strand) : strand_(strand) {}

  void OpenOutput(const std::string& output, const std::string& job_uid, int64_t generation,
                  Callback<OpenedOutput> done) override {
    calls.push_back(absl::StrCat("open ", job_uid, "/", generation));
    absl::Status status = failure;
    if (status.ok() && generations[output] > generation) {
      status = status::Error(absl::StatusCode::kFailedPrecondition, "GENERATION_SUPERSEDED",
                             "a higher generation is open");
    }
    if (!status.ok()) return Post(std::move(done), status);
    generations[output] = generation;
    OpenedOutput opened{resume.count(output) != 0 ? resume[output] : "",
                        absl::StrCat("/site/", job_uid, "/", generation)};
    strand_->Post([done = std::move(done), opened]() mutable { done(opened); });
  }
  void PinBundle(const std::string& bundle, const std::string& holder,
                 Callback<std::string> done) override {
    Pin(bundle, holder, std::move(done));
  }
  void PinVersion(const std::string& version, const std::string& holder,
                  Callback<std::string> done) override {
    Pin(version, holder, std::move(done));
  }
  void CommitOutput(const OutputCommit& commit, Callback<std::string> done) override {
    calls.push_back(absl::StrCat(commit.checkpoint ? "checkpoint " : "final ", commit.directory));
    absl::Status status = failure;
    if (status.ok() && generations[commit.output] != commit.generation) {
      status = status::Error(absl::StatusCode::kFailedPrecondition, "GENERATION_SUPERSEDED",
                             "a higher generation is open");
    }
    if (!status.ok()) return Post(std::move(done), status);
    if (commit.checkpoint) resume[commit.output] = absl::StrCat("/committed/", commit.step);
    strand_->Post([done = std::move(done)]() mutable { done(std::string("sha256:00")); });
  }
  void ReleasePins(const std::string& holder, DoneCallback done) override {
    calls.push_back(absl::StrCat("release ", holder));
    if (failure.ok()) pins.erase(holder);
    strand_->Post([done = std::move(done), status = failure]() mutable { done(status); });
  }

  // Answered to everything while not OK.
  absl::Status failure;
  std::vector<std::string> calls;
  std::map<std::string, int64_t> generations;
  std::map<std::string, std::string> resume;
  std::map<std::string, std::set<std::string>> pins;

 private:
  void Pin(const std::string& name, const std::string& holder, Callback<std::string> done) {
    calls.push_back(absl::StrCat("pin ", name));
    if (!failure.ok()) return Post(std::move(done), failure);
    pins[holder].insert(name);
    strand_->Post([done = std::move(done), name]() mutable { done("/site/" + name); });
  }
  template <typename T>
  void Post(Callback<T> done, absl::Status status) {
    strand_->Post([done = std::move(done), status]() mutable { done(status); });
  }

  Strand* const strand_;
};

class FakeWorkspace final : public Workspace {
 public:
  explicit FakeWorkspace(Strand* strand) : strand_(strand) {}
  void Furnish(const struct Furnish& order, DoneCallback done) override {
    furnished.push_back(order.folder);
    strand_->Post([done = std::move(done), status = failure]() mutable { done(status); });
  }
  void DiscardOutput(const std::string& directory, DoneCallback done) override {
    discarded.push_back(directory);
    strand_->Post([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }
  absl::Status failure;
  std::vector<std::string> furnished;
  std::vector<std::string> discarded;

 private:
  Strand* const strand_;
};

class FakeTaskIdentity final : public TaskIdentity {
 public:
  explicit FakeTaskIdentity(Strand* strand) : strand_(strand) {}
  void Issue(const IssueIdentity& order,
             absl::AnyInvocable<void(absl::StatusOr<std::string>)> done) override {
    const std::string directory = order.folder + "/identity";
    issues.push_back(order.id);
    absl::StatusOr<std::string> answer = directory;
    if (failure.ok()) {
      svids[directory] = TaskSvid{{"leaf-" + std::to_string(issues.size())},
                                  "key-" + std::to_string(issues.size()),
                                  {"root"}};
      const absl::Time now = strand_->clock().Read().wall;
      lives[directory] = SvidLife{now, now + life};
    } else {
      answer = failure;
    }
    strand_->Post([done = std::move(done), answer]() mutable { done(answer); });
  }
  void Inspect(const std::string& directory,
               absl::AnyInvocable<void(absl::StatusOr<SvidLife>)> done) override {
    const auto found = lives.find(directory);
    absl::StatusOr<SvidLife> answer = absl::NotFoundError(directory);
    if (found != lives.end()) answer = found->second;
    strand_->Post([done = std::move(done), answer]() mutable { done(answer); });
  }
  void Read(const std::string& directory,
            absl::AnyInvocable<void(absl::StatusOr<TaskSvid>)> done) override {
    const auto found = svids.find(directory);
    absl::StatusOr<TaskSvid> answer = absl::NotFoundError(directory);
    if (found != svids.end()) answer = found->second;
    strand_->Post([done = std::move(done), answer]() mutable { done(answer); });
  }
  // Answered to Issue while not OK.
  absl::Status failure;
  // Of what Issue gives.
  absl::Duration life = absl::Hours(24);
  // Whom it was asked for, in order.
  std::vector<session::TaskId> issues;
  // By folder; what a restarted agent finds.
  std::map<std::string, SvidLife> lives;
  // What Read answers, by folder.
  std::map<std::string, TaskSvid> svids;

 private:
  Strand* const strand_;
};

// Instances by `<gpu>/<start>`; their names say what they are.
class FakeMigDevices final : public MigDevices {
 public:
  explicit FakeMigDevices(Strand* strand) : strand_(strand) {}
  void Make(const MakeMigInstance& order, Callback<std::string> done) override {
    ++makes;
    absl::StatusOr<std::string> made_or =
        failure.ok() ? MakeNow(order) : absl::StatusOr<std::string>(failure);
    strand_->Post(
        [done = std::move(done), made_or = std::move(made_or)]() mutable { done(made_or); });
  }
  void Remove(const capstan::type::v1::MigInstance& instance, DoneCallback done) override {
    const auto stands = instances_.find(PlaceOf(instance));
    if (failure.ok() && stands != instances_.end() &&
        mig::IsSameInstance(stands->second, instance)) {
      Erase(stands);
    }
    strand_->Post([done = std::move(done), status = failure]() mutable { done(status); });
  }

  absl::Status failure;
  // The GPUs in MIG mode; absent: all that are asked for.
  absl::optional<std::vector<capstan::type::v1::MigGpu>> gpus;
  std::map<std::string, std::string> made;
  int makes = 0;

 private:
  using Instances = std::map<std::string, capstan::type::v1::MigInstance>;

  static std::string PlaceOf(const capstan::type::v1::MigInstance& instance) {
    return absl::StrCat(instance.gpu(), "/", instance.start());
  }
  Instances::iterator Erase(Instances::iterator instance) {
    made.erase(instance->first);
    return instances_.erase(instance);
  }
  absl::StatusOr<std::string> MakeNow(const MakeMigInstance& order) {
    const auto& wanted = order.instance;
    const absl::Status placement = mig::CheckPlacement(wanted);
    if (!placement.ok()) return placement;
    const auto is_it = [&wanted](const capstan::type::v1::MigGpu& gpu) {
      return gpu.index() == wanted.gpu() && gpu.model() == wanted.model();
    };
    if (gpus.has_value() && std::none_of(gpus->begin(), gpus->end(), is_it)) {
      return absl::FailedPreconditionError("no such GPU in MIG mode");
    }
    for (const auto& other : order.others) {
      if (mig::Overlap(other, wanted)) return absl::UnavailableError("another Task has its place");
    }
    for (auto it = instances_.begin(); it != instances_.end();) {
      const bool goes =
          mig::Overlap(it->second, wanted) && !mig::IsSameInstance(it->second, wanted);
      it = goes ? Erase(it) : std::next(it);
    }
    const std::string place = PlaceOf(wanted);
    instances_[place] = wanted;
    made[place] = absl::StrCat("MIG-", place, "/", wanted.profile());
    return made[place];
  }

  Strand* const strand_;
  Instances instances_;
};

class FakePortProbe final : public PortProbe {
 public:
  absl::StatusOr<std::vector<int32_t>> Taken(const std::vector<int32_t>& ports) override {
    std::vector<int32_t> found;
    for (const int32_t port : ports) {
      if (taken.count(port) != 0) found.push_back(port);
    }
    return found;
  }
  std::set<int32_t> taken;
};

class FakeTaskSockets final : public TaskSockets {
 public:
  void SetCheckpointCallback(CheckpointCallback on_checkpoint) override {
    on_checkpoint_ = std::move(on_checkpoint);
  }
  void Serve(const ServeSocket& order) override { served.insert(order.id); }
  void Close(const session::TaskId& id) override { served.erase(id); }
  // As if the Task had asked.
  void Ask(const session::TaskId& id, const std::string& directory, int64_t step, Answer answer) {
    on_checkpoint_(id, directory, step, std::move(answer));
  }
  std::set<session::TaskId> served;

 private:
  CheckpointCallback on_checkpoint_;
};

class FakeLogSink final : public LogSink {
 public:
  explicit FakeLogSink(Strand* strand) : strand_(strand) {}
  void Append(const std::string& stream, std::vector<capstan::telemetry::v1::Record> records,
              absl::AnyInvocable<void(absl::Status)> done) override {
    if (failure.ok() || stores_all_the_same) {
      for (auto& record : records) streams[stream].push_back(std::move(record));
    }
    strand_->Post([done = std::move(done), status = failure]() mutable { done(status); });
  }
  absl::Status failure;
  // What fails is the answer alone.
  bool stores_all_the_same = false;
  std::map<std::string, std::vector<capstan::telemetry::v1::Record>> streams;

 private:
  Strand* const strand_;
};

class FakeNodeProbe final : public NodeProbe {
 public:
  FakeNodeProbe(Strand* strand, capstan::type::v1::NodeObservation seen)
      : observation(std::move(seen)), strand_(strand) {}
  void Observe(absl::AnyInvocable<void(capstan::type::v1::NodeObservation)> done) override {
    strand_->Post([done = std::move(done), seen = observation]() mutable { done(seen); });
  }
  capstan::type::v1::NodeObservation observation;

 private:
  Strand* const strand_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_PORTS_H_
