#include "libs/kube/events/event_recorder.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/kube/testing/fault_plan.h"
#include "libs/kube/transport/transport.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

using testing::Json;

testing::FakeApiServerOptions ServerOptions() {
  testing::FakeApiServerOptions options;
  options.converter = &BuiltinConverter();
  return options;
}

EventOptions Options() {
  EventOptions options;
  options.reporting_controller = "example.org/parts";
  options.reporting_instance = "parts-0";
  return options;
}

class EventRecorderTest : public ::testing::Test {
 protected:
  ~EventRecorderTest() override {
    recorder_ = nullptr;
    strand_.Stop();
    client_ = nullptr;
  }

  void Make(const EventOptions& options) {
    recorder_ =
        std::make_unique<EventRecorder>(options, EventRecorderDependencies{client_.get(), 1, {}});
  }
  bool Record(const std::string& name, const std::string& reason = "Broke") {
    core_v1::Pod pod;
    pod.mutable_metadata()->set_namespace_("default");
    pod.mutable_metadata()->set_name(name);
    pod.mutable_metadata()->set_uid("u");
    pod.mutable_metadata()->set_resource_version("7");
    EventRecord record;
    record.regarding = ReferenceTo(kPods, pod);
    record.reason = reason;
    record.action = "Run";
    record.note = "it broke";
    return recorder_->Record(record);
  }
  std::vector<Json> Events() {
    std::vector<Json> events;
    server_.Use([&](testing::FakeApiState& state) {
      for (const auto& [key, object] : state.store().List("events.k8s.io/events", "default")) {
        events.push_back(*object);
      }
    });
    return events;
  }

  SystemClock clock_;
  testing::FakeApiServer server_{ServerOptions(), &clock_};
  ThreadStrand strand_{"strand", &clock_};
  const std::unique_ptr<Transport> transport_ = server_.NewTransport();
  Random random_{1};
  std::unique_ptr<Client> client_ =
      std::make_unique<Client>(transport_.get(), &strand_, &random_, ClientOptions());
  std::unique_ptr<EventRecorder> recorder_;
};

TEST_F(EventRecorderTest, StopWritesWhatIsLeft) {
  Make(Options());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Record("a"));
  EXPECT_TRUE(Record("b"));
  recorder_->Stop(absl::Minutes(1));
  const auto events = Events();
  ASSERT_EQ(events.size(), 2u);
  const Json& event = events[0];
  EXPECT_EQ(event["regarding"]["name"], "a");
  EXPECT_EQ(event["regarding"]["kind"], "Pod");
  EXPECT_EQ(event["regarding"]["apiVersion"], "v1");
  EXPECT_EQ(event["regarding"]["uid"], "u");
  EXPECT_FALSE(event["regarding"].contains("resourceVersion"));
  EXPECT_EQ(event["reportingController"], "example.org/parts");
  EXPECT_EQ(event["series"]["count"], 5);
  EXPECT_TRUE(event["series"].contains("lastObservedTime"));
  EXPECT_FALSE(events[1].contains("series"));
  EXPECT_EQ(recorder_->stats(), (EventStats{6, 0, 6, 0}));
  // It is over.
  EXPECT_FALSE(Record("c"));
  EXPECT_EQ(recorder_->stats(), (EventStats{7, 1, 6, 0}));
  recorder_->Stop(absl::Minutes(1));
}

TEST_F(EventRecorderTest, AnyThreadRecords) {
  EventOptions options = Options();
  options.series_interval = absl::ZeroDuration();
  Make(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        Record(absl::StrCat("p", i % 3), t % 2 == 0 ? "Even" : "Odd");
        (void)recorder_->stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  recorder_->Stop(absl::Minutes(1));
  int64_t told = 0;
  const auto events = Events();
  EXPECT_EQ(events.size(), 6u);
  for (const Json& event : events) {
    told += event.contains("series") ? event["series"]["count"].get<int64_t>() : 1;
  }
  EXPECT_EQ(told, 400);
  EXPECT_EQ(recorder_->stats(), (EventStats{400, 0, 400, 0}));
}

TEST_F(EventRecorderTest, AServerThatHangsHoldsNobodyUp) {
  server_.AddFault({{}, testing::Hang(), 0, -1});
  EventOptions options = Options();
  options.max_series = 2;
  Make(options);
  EXPECT_TRUE(Record("a"));
  EXPECT_TRUE(Record("b"));
  EXPECT_TRUE(Record("a"));
  EXPECT_FALSE(Record("c"));
  recorder_->Stop(absl::ZeroDuration());
  EXPECT_EQ(recorder_->stats(), (EventStats{4, 1, 0, 3}));
}

TEST_F(EventRecorderTest, AFlushEndsInTime) {
  server_.AddFault({{}, testing::Hang(), 0, -1});
  Make(Options());
  EXPECT_TRUE(Record("a"));
  recorder_->Stop(absl::Milliseconds(1));
  EXPECT_EQ(recorder_->stats(), (EventStats{1, 0, 0, 1}));
}

TEST_F(EventRecorderTest, LostAnswersWriteNothingTwice) {
  testing::RequestMatcher creations;
  creations.method = "POST";
  server_.AddFault({creations, testing::BrokenAfter(), 0, 1});
  Make(Options());
  EXPECT_TRUE(Record("a"));
  recorder_->Stop(absl::Minutes(1));
  EXPECT_EQ(Events().size(), 1u);
  EXPECT_EQ(recorder_->stats(), (EventStats{1, 0, 1, 0}));
}

TEST_F(EventRecorderTest, RefusalsAreCounted) {
  server_.AddFault({{}, testing::Answer{testing::Plain(403, "no")}, 0, -1});
  Make(Options());
  EXPECT_TRUE(Record("a"));
  recorder_->Stop(absl::Minutes(1));
  EXPECT_EQ(recorder_->stats(), (EventStats{1, 0, 0, 1}));
}

TEST_F(EventRecorderTest, TheStrandMayGoFirst) {
  Make(Options());
  strand_.Stop();
  Record("a");
  recorder_->Stop(absl::Minutes(1));
  EXPECT_EQ(recorder_->stats().failed, 1);
}

}  // namespace
}  // namespace capstan::kube
