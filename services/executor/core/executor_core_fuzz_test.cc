// What a scheduler and agents that keep to the encoding alone may send, in any order: whatever it
// is, the store is what memory holds, the next life can read it, and the journal is bounded.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/type/v1/session.pb.h"
#include "services/executor/core/executor_core.h"
#include "services/executor/core/step.h"

namespace capstan::executor {
namespace {

using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using fuzzing::FuzzInput;
using fuzzing::Require;

class Executor {
 public:
  Executor() { Restart(); }

  void Step(FuzzInput* input) {
    static const auto& words =
        *new std::vector<std::string>{"c1", "n1", "n2", "job", "job2", "g", "a/b", "10.0.0.1", ""};
    switch (input->Below(8)) {
      case 0:
        // The engine dials once the stream before is over.
        if (up_ != 0) break;
        up_ = ++last_session_;
        Apply(UpConnected{up_});
        break;
      case 1:
      case 2:
        Apply(UpMessage{up_, fuzzing::MakeMessage<SessionDown>(words, input)});
        break;
      case 3:
        Apply(UpDisconnected{up_});
        up_ = 0;
        break;
      case 4:
        agents_.push_back(++last_session_);
        Apply(AgentConnected{last_session_, words[1 + input->Below(2)]});
        break;
      case 5:
      case 6:
        if (agents_.empty()) break;
        Apply(AgentMessage{agents_[input->Below(agents_.size())],
                           fuzzing::MakeMessage<SessionUp>(words, input)});
        break;
      default:
        StepRarely(input);
    }
  }

  void Restart() {
    absl::StatusOr<ExecutorCore> core = ExecutorCore::Load(Config(), Records(), now_);
    Require(core.ok());
    core_ = std::make_unique<ExecutorCore>(*std::move(core));
    up_ = 0;
    agents_.clear();
    Apply(Started{});
  }

  // What every state keeps to.
  void Check() const {
    Require(core_->Snapshot() == store_);
    const absl::StatusOr<ExecutorCore> again = ExecutorCore::Load(Config(), Records(), now_);
    Require(again.ok() && again->Snapshot() == store_);
    Require(core_->unacknowledged() <= core_->tasks().entries().size() + core_->nodes().size());
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
    const auto core = ExecutorCore::Load(Config(), Records(), now_);
    if (core.ok()) (void)core->Snapshot();
  }

 private:
  static CoreConfig Config() {
    CoreConfig config;
    config.cluster = "c1";
    config.first_uid = 100;
    config.last_uid = 102;
    return config;
  }

  std::vector<store::KeyValue> Records() const {
    std::vector<store::KeyValue> records;
    for (const auto& [key, value] : store_) records.push_back({.key = key, .value = value});
    return records;
  }

  void StepRarely(FuzzInput* input) {
    switch (input->Below(4)) {
      case 0:
        if (agents_.empty()) break;
        Apply(AgentDisconnected{agents_.back()});
        agents_.pop_back();
        break;
      case 1:
        Restart();
        break;
      default: {
        const absl::Duration passed = absl::Milliseconds(500) * input->Below(60);
        now_.wall += passed;
        now_.boot = now_.boot + passed;
        Apply(Tick{});
      }
    }
  }

  void Apply(const Event& event) {
    executor::Step step = core_->Apply(event, now_);
    for (const store::Put& put : step.puts) store_[put.key] = put.value;
    for (const store::Delete& key : step.deletes) store_.erase(key.key);
    for (const Effect& effect : step.after) {
      if (std::holds_alternative<CloseUp>(effect)) up_ = 0;
    }
    (void)core_->NextDeadline();
  }

  Now now_ = {absl::FromUnixSeconds(1'700'000'000), BootTime::FromNanoseconds(1'000'000'000)};
  std::map<std::string, std::string> store_;
  std::unique_ptr<ExecutorCore> core_;
  SessionId last_session_ = 0;
  SessionId up_ = 0;
  std::vector<SessionId> agents_;
};

}  // namespace
}  // namespace capstan::executor

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::fuzzing::FuzzInput input(data, size);
  capstan::fuzzing::FuzzInput damage(data, size < 8 ? size : 8);
  capstan::executor::Executor executor;
  while (!input.empty()) executor.Step(&input);
  executor.Check();
  executor.Restart();
  executor.Check();
  executor.Damage(&damage);
  return 0;
}
