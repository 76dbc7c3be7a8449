#include "libs/engine/core_loop.h"

#include <gtest/gtest.h>

#include <variant>

#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::engine {
namespace {

// A core that stores a number under many keys and answers it as an effect.
struct Add {
  int keys = 0;
};
struct Tick {};
using Event = std::variant<Add, Tick>;
struct Step {
  std::vector<store::Put> puts;
  std::vector<store::Delete> deletes;
  std::vector<std::string> after;
};

class Core {
 public:
  explicit Core(size_t known) : known_(known) {}
  Step Apply(const Event& event, Now now) {
    Step step;
    if (const auto* add = std::get_if<Add>(&event)) {
      for (int i = 0; i < add->keys; ++i) {
        step.puts.push_back(store::Put{"/t/" + std::to_string(known_++), "x"});
      }
      if (add->keys == 1) next_ = now.boot + absl::Seconds(5);
      step.after.push_back("added " + std::to_string(known_));
    } else {
      next_ = absl::nullopt;
      step.after.push_back("tick");
    }
    return step;
  }
  absl::optional<BootTime> NextDeadline() const { return next_; }

 private:
  size_t known_;
  absl::optional<BootTime> next_;
};

class CoreLoopTest : public testing::Test {
 protected:
  using Loop = CoreLoop<Core, Event, Step, Tick>;

  CoreLoopTest() : strand_(&clock_), store_(&strand_) {
    loop_ = std::make_unique<Loop>(
        &strand_, &store_, "/t/",
        Loop::Hooks{.load = [](const std::vector<store::KeyValue>& records,
                               Now) -> absl::StatusOr<Core> { return Core(records.size()); },
                    .loaded = [this] { seen_.push_back("loaded"); },
                    .dropped = [this](const absl::Status&) { seen_.push_back("dropped"); },
                    .carry_out = [this](std::string effect) { seen_.push_back(effect); },
                    .stepped = nullptr});
    loop_->Start();
    strand_.RunReady();
  }

  SimulatedClock clock_;
  SimulatedStrand strand_;
  store::MemoryStore store_;
  std::vector<std::string> seen_;
  std::unique_ptr<Loop> loop_;
};

TEST_F(CoreLoopTest, EffectsFollowTheCommitInOrder) {
  store_.SetCommitDelay(absl::Seconds(1));
  loop_->Apply(Add{2});
  loop_->Apply(Add{0});
  strand_.RunReady();
  EXPECT_EQ(seen_, (std::vector<std::string>{"loaded"}));
  strand_.Advance(absl::Seconds(2));
  EXPECT_EQ(seen_, (std::vector<std::string>{"loaded", "added 2", "added 2"}));
}

TEST_F(CoreLoopTest, LargeStepsAreCutAndReadBackInPages) {
  loop_->Apply(Add{2500});
  strand_.RunReady();
  EXPECT_EQ(seen_.back(), "added 2500");
  store_.FailNextTxn(absl::UnavailableError("disk"));
  loop_->Apply(Add{1});
  strand_.RunReady();
  EXPECT_EQ(seen_.back(), "dropped");
  EXPECT_EQ(loop_->core(), nullptr);
  loop_->Apply(Add{1});
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(seen_.back(), "loaded");
  loop_->Apply(Add{0});
  strand_.RunReady();
  EXPECT_EQ(seen_.back(), "added 2500");
}

TEST_F(CoreLoopTest, TicksAtTheDeadlineAndArmsNothingOtherwise) {
  EXPECT_EQ(strand_.armed(), 0u);
  loop_->Apply(Add{1});
  strand_.RunReady();
  EXPECT_EQ(strand_.armed(), 1u);
  strand_.Advance(absl::Seconds(5));
  EXPECT_EQ(seen_.back(), "tick");
  EXPECT_EQ(strand_.armed(), 0u);
}

}  // namespace
}  // namespace capstan::engine
