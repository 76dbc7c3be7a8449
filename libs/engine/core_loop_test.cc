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

TEST_F(CoreLoopTest, WhoeverWaitsGoesOnInOrderAsSoonAsLittleIsToBeStored) {
  std::vector<int> went_on;
  const auto wait = [&](int who) { loop_->WhenRelieved([&, who] { went_on.push_back(who); }); };
  wait(1);
  EXPECT_EQ(went_on, (std::vector<int>{1})) << "there is no reason to wait";
  store_.SetCommitDelay(absl::Seconds(1));
  for (int i = 0; i < 5000; ++i) loop_->Apply(Add{2});
  wait(2);
  wait(3);
  strand_.RunReady();
  EXPECT_EQ(went_on, (std::vector<int>{1}));
  while (loop_->congested()) {
    ASSERT_EQ(went_on.size(), 1u) << "there is room for others first";
    strand_.Advance(absl::Seconds(1));
  }
  while (went_on.size() < 2) strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(went_on, (std::vector<int>{1, 2, 3}));
  // What is let go on may be at once what others wait for again.
  for (int i = 0; i < 5000; ++i) loop_->Apply(Add{2});
  loop_->WhenRelieved([&] {
    went_on.push_back(4);
    for (int i = 0; i < 5000; ++i) loop_->Apply(Add{2});
  });
  wait(5);
  while (went_on.size() < 4) strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(went_on.back(), 4);
  while (went_on.size() < 5) strand_.Advance(absl::Seconds(1));
}

TEST_F(CoreLoopTest, WhoeverWaitsIsLetGoOfWithTheCore) {
  for (int i = 0; i < 5000; ++i) loop_->Apply(Add{2});
  auto held = std::make_shared<char>();
  const std::weak_ptr<char> waits = held;
  loop_->WhenRelieved([held = std::move(held)] { FAIL() << "the core is gone"; });
  EXPECT_FALSE(waits.expired());
  store_.FailNextTxn(absl::UnavailableError("disk"));
  strand_.RunReady();
  EXPECT_EQ(seen_.back(), "dropped");
  EXPECT_TRUE(waits.expired());
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
