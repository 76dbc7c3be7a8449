// What an executor, Tasks and damaged files of shims may say, in any order, while the machine does
// what it is asked to or fails: whatever it is, the store is what memory holds and the next life
// can read it, and what is told the machine names no way out of its folders.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/session/task_id.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/session.pb.h"
#include "services/node_agent/core/agent_core.h"
#include "services/node_agent/core/keys.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimStatus;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::SessionDown;
using fuzzing::FuzzInput;
using fuzzing::Require;

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{"n1",
                                                           "job",
                                                           "g",
                                                           "master",
                                                           "sha256:ab",
                                                           "projects/p/jobs/j",
                                                           "projects/p/jobs/j/output",
                                                           "projects/p/datasets/d",
                                                           "v1",
                                                           "/site/job/1",
                                                           "nvidia.com/h100-80gb",
                                                           "..",
                                                           "boot-1",
                                                           ""};
  return words;
}

// The answer that the machine gives when it has done what it was asked to.
template <typename T>
Answer AnswerTo() {
  if constexpr (std::is_same_v<T, OpenOutput>) return OpenedOutput{"", "/site/job/1"};
  if constexpr (std::is_same_v<T, PinBundle> || std::is_same_v<T, PinVersion> ||
                std::is_same_v<T, IssueIdentity>) {
    return Directory{"/site/x"};
  }
  if constexpr (std::is_same_v<T, MakePlace>) return Place{"/tasks/t", {}};
  if constexpr (std::is_same_v<T, MakeMigInstance>) return MigDevice{"MIG-x"};
  if constexpr (std::is_same_v<T, ListGpus>) {
    return ListedGpus{{{"GPU-0", "nvidia.com/h100-80gb", 0}, {"GPU-1", "nvidia.com/h100-80gb", 1}}};
  }
  if constexpr (std::is_same_v<T, FindMigFiles>) return GpuFileNumbers{};
  if constexpr (std::is_same_v<T, CheckPorts>) return TakenPorts{};
  return std::monostate();
}

class Agent {
 public:
  Agent() { Restart(); }

  void Step(FuzzInput* input) {
    switch (input->Below(10)) {
      case 0:
        // The engine dials once the stream before is over.
        if (up_ != 0) break;
        up_ = ++last_session_;
        Apply(UpConnected{up_});
        break;
      case 1:
      case 2:
      case 3:
        Apply(UpMessage{up_, fuzzing::MakeMessage<SessionDown>(Words(), input)});
        break;
      case 4:
      case 5:
      case 6: {
        if (pending_.empty()) break;
        Answered answered = std::move(pending_.front());
        pending_.pop_front();
        if (input->Below(8) == 1) {
          answered.status = absl::UnavailableError("away");
          answered.answer = std::monostate();
        }
        Apply(answered);
        break;
      }
      case 7:
        Apply(ShimReported{AnyTask(input), fuzzing::MakeMessage<ShimStatus>(Words(), input)});
        break;
      default:
        StepRarely(input);
    }
  }

  void Restart() {
    absl::StatusOr<AgentCore> core = AgentCore::Load(Config(), Records(), now_);
    Require(core.ok());
    core_ = std::make_unique<AgentCore>(*std::move(core));
    pending_.clear();
    up_ = 0;
    Apply(Discovered{});
  }

  // What every state keeps to.
  void Check() const {
    Require(core_->Snapshot() == store_);
    const absl::StatusOr<AgentCore> again = AgentCore::Load(Config(), Records(), now_);
    Require(again.ok() && again->Snapshot() == store_);
    std::set<std::string> gpus;
    for (const auto& [id, entry] : core_->tasks()) {
      if (entry.record.stage() == AgentCore::TaskRecord::STAGE_ENDED) continue;
      for (const std::string& uuid : entry.record.gpus()) Require(gpus.insert(uuid).second);
    }
  }

  // A record of the store is not what was written: it is refused, or read as something else.
  void Damage(FuzzInput* input) {
    if (store_.empty()) return;
    auto record = store_.begin();
    for (size_t i = input->Below(store_.size()); i > 0; --i) ++record;
    std::string& value = record->second;
    if (input->Flag()) {
      value.resize(input->Below(value.size() + 1));
    } else if (!value.empty()) {
      value[input->Below(value.size())] ^= static_cast<char>(1 + input->Below(255));
    }
    const auto core = AgentCore::Load(Config(), Records(), now_);
    if (core.ok()) (void)core->Snapshot();
  }

 private:
  static CoreConfig Config() {
    CoreConfig config;
    config.cluster = "c1";
    config.node = "n1";
    config.host = "10.0.0.1";
    config.boot_id = "boot-1";
    config.last_port = config.first_port + 2;
    config.chooses_gpus = true;
    config.isolation.namespaces = true;
    return config;
  }

  std::vector<store::KeyValue> Records() const {
    std::vector<store::KeyValue> records;
    for (const auto& [key, value] : store_) records.push_back({.key = key, .value = value});
    return records;
  }

  session::TaskId AnyTask(FuzzInput* input) const {
    if (core_->tasks().empty()) return {"job", 1, "g", 0};
    auto task = core_->tasks().begin();
    for (size_t i = input->Below(core_->tasks().size()); i > 0; --i) ++task;
    return task->first;
  }

  void StepRarely(FuzzInput* input) {
    switch (input->Below(6)) {
      case 0:
        Apply(UpDisconnected{up_});
        up_ = 0;
        break;
      case 1:
        Restart();
        break;
      case 2:
        Apply(CheckpointAsked{AnyTask(input), 1, input->Word(Words()), input->Number()});
        break;
      case 3:
        Apply(LogsShipped{AnyTask(input)});
        break;
      case 4:
        Apply(NodeObserved{fuzzing::MakeMessage<NodeObservation>(Words(), input)});
        break;
      default: {
        const absl::Duration passed = absl::Milliseconds(500) * input->Below(200);
        now_.wall += passed;
        now_.boot = now_.boot + passed;
        Apply(Tick{});
      }
    }
  }

  void Apply(const Event& event) {
    node_agent::Step step = core_->Apply(event, now_);
    for (const store::Put& put : step.puts) store_[put.key] = put.value;
    for (const store::Delete& key : step.deletes) store_.erase(key.key);
    // Of another life: it counts no more, and is overwritten by the next one.
    if (!core_->confirmed_at().has_value()) store_.erase(kConfirmedKey);
    for (const Effect& effect : step.after) {
      std::visit([this](const auto& known) { Note(known); }, effect);
    }
    (void)core_->NextDeadline();
  }

  template <typename T>
  void Note(const T& effect) {
    if constexpr (std::is_same_v<T, CloseUp>) up_ = 0;
    if constexpr (std::is_same_v<T, CommitCheckpoint>) {
      Require(!absl::StrContains(effect.directory, ".."));
    }
    // It answers for KeepIdentity as well, whose ticket is unused.
    if constexpr (requires { effect.ticket; }) {
      Require(session::CheckTaskKey(effect.id.ToProto()).ok());
      pending_.push_back({effect.id, effect.ticket, absl::OkStatus(), AnswerTo<T>()});
    }
  }

  Now now_ = {absl::FromUnixSeconds(1'700'000'000), BootTime::FromNanoseconds(100'000'000'000)};
  std::map<std::string, std::string> store_;
  std::unique_ptr<AgentCore> core_;
  std::deque<Answered> pending_;
  SessionId last_session_ = 0;
  SessionId up_ = 0;
};

}  // namespace
}  // namespace capstan::node_agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::fuzzing::FuzzInput input(data, size);
  capstan::fuzzing::FuzzInput damage(data, size < 8 ? size : 8);
  capstan::node_agent::Agent agent;
  while (!input.empty()) agent.Step(&input);
  agent.Check();
  agent.Restart();
  agent.Check();
  agent.Damage(&damage);
  return 0;
}
