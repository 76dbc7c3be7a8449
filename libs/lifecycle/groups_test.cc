#include "libs/lifecycle/groups.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/time/simulated_clock.h"

namespace capstan::lifecycle {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// Parts that write down what happens to them.
class GroupsTest : public ::testing::Test {
 protected:
  Part Recording(const std::string& name, absl::Status start = absl::OkStatus()) {
    return Part{name,
                [this, name, start] {
                  Note("+" + name);
                  return start;
                },
                [this, name](BootTime) { Note("-" + name); }};
  }

  void Note(std::string what) {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(what));
  }

  std::vector<std::string> events() {
    absl::MutexLock lock(&mutex_);
    return events_;
  }

  SimulatedClock clock_;
  log::TestingSink sink_;
  log::Logger log_{"test", &clock_, &sink_};
  Groups groups_{&clock_, &log_};

 private:
  absl::Mutex mutex_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(GroupsTest, DependenciesStartFirstAndStopLast) {
  groups_.Add({Recording("store")});
  groups_.Add({Recording("a"), Recording("b")});
  groups_.Add({Recording("server")});
  ASSERT_TRUE(groups_.Start(absl::Seconds(1)).ok());
  groups_.Stop(absl::Seconds(1));
  const std::vector<std::string> all = events();
  ASSERT_EQ(all.size(), 8u);
  EXPECT_THAT(std::vector<std::string>(all.begin(), all.begin() + 5),
              ElementsAre("+store", "+a", "+b", "+server", "-server"));
  EXPECT_THAT(std::vector<std::string>(all.begin() + 5, all.begin() + 7),
              UnorderedElementsAre("-a", "-b"));
  EXPECT_EQ(all.back(), "-store");
  groups_.Stop(absl::Seconds(1));
  EXPECT_EQ(events().size(), 8u) << "a second Stop does nothing";
}

TEST_F(GroupsTest, AFailedStartStopsWhatWasStartedAndSaysWhich) {
  groups_.Add({Recording("store"), Recording("bad", absl::UnavailableError("no port")),
               Recording("never")});
  groups_.Add({Recording("server")});
  const absl::Status started = groups_.Start(absl::Seconds(1));
  EXPECT_EQ(started.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(started.message(), "bad: no port");
  EXPECT_THAT(events(), ElementsAre("+store", "+bad", "-store"));
}

TEST_F(GroupsTest, SiblingsStopAtTheSameTime) {
  absl::Barrier* const both = new absl::Barrier(2);
  const auto meet = [both](BootTime) {
    // Would never return if siblings were stopped one after the other. Exactly one of those who met
    // is told to delete the barrier.
    if (both->Block()) delete both;
  };
  groups_.Add({Part{"a", nullptr, meet}, Part{"b", nullptr, meet}});
  ASSERT_TRUE(groups_.Start(absl::Seconds(1)).ok());
  groups_.Stop(absl::Seconds(1));
}

TEST_F(GroupsTest, AllPartsShareOneDeadlineAndOverstayingIsLogged) {
  BootTime first;
  BootTime second;
  groups_.Add({Part{"a", nullptr, [&](BootTime deadline) { first = deadline; }}});
  groups_.Add({Part{"slow", nullptr, [&](BootTime deadline) {
                      second = deadline;
                      clock_.Advance(absl::Seconds(3));
                    }}});
  ASSERT_TRUE(groups_.Start(absl::Seconds(1)).ok());
  const BootTime begin = clock_.Read().boot;
  groups_.Stop(absl::Seconds(2));
  EXPECT_EQ(first, begin + absl::Seconds(2));
  EXPECT_EQ(second, first);
  ASSERT_FALSE(sink_.records().empty());
  EXPECT_EQ(sink_.records()[0].message, "part overstayed the drain");
  EXPECT_EQ(sink_.records()[0].fields[0].text(), "slow");
}

TEST_F(GroupsTest, TheFirstCauseOfTheEndIsKept) {
  std::thread other([this] { groups_.RequestStop(absl::InternalError("engine failed")); });
  EXPECT_EQ(groups_.WaitForStopRequest().message(), "engine failed");
  other.join();
  groups_.RequestStop(absl::OkStatus());
  EXPECT_EQ(groups_.WaitForStopRequest().message(), "engine failed");
}

}  // namespace
}  // namespace capstan::lifecycle
