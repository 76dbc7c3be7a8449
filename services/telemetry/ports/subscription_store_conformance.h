// What every SubscriptionStore must do, as parameterised tests. A store's test includes this header
// and instantiates SubscriptionStoreConformanceTest with a function that makes a place.
#ifndef CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTION_STORE_CONFORMANCE_H_
#define CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTION_STORE_CONFORMANCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/telemetry/ports/subscription_store.h"

namespace capstan::telemetry {

// Where a store keeps its records, so that it can be opened again.
class SubscriptionStorePlace {
 public:
  virtual ~SubscriptionStorePlace() = default;
  // One at a time.
  virtual std::unique_ptr<SubscriptionStore> Open() = 0;
};

class SubscriptionStoreConformanceTest
    : public testing::TestWithParam<std::function<std::unique_ptr<SubscriptionStorePlace>()>> {
 protected:
  SubscriptionStoreConformanceTest() : place_(GetParam()()), store_(place_->Open()) {}

  void OpenAgain() {
    store_.reset();
    store_ = place_->Open();
  }
  static core::SubscriptionRecord Record(const std::string& name, int64_t offset) {
    core::SubscriptionRecord record;
    record.set_name(name);
    record.set_stream("projects/p/jobs/j/streams/log");
    record.mutable_create_time()->set_nanos(123'456'789);
    record.set_acknowledged_offset(offset);
    record.set_reader_generation(3);
    record.set_request_id("0e6c2d2e-5c51-4f2c-8a0e-0a1b2c3d4e5f");
    return record;
  }
  template <typename Call>
  static absl::Status Await(Call call) {
    absl::Status result;
    absl::Notification done;
    call([&](const absl::Status& status) {
      result = status;
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  absl::Status Put(const core::SubscriptionRecord& record) {
    return Await([&](auto done) { store_->Put(record, std::move(done)); });
  }
  absl::Status Remove(const std::string& name) {
    return Await([&](auto done) { store_->Remove(name, std::move(done)); });
  }
  // `name@offset` of all, as after a restart.
  std::vector<std::string> Kept() {
    OpenAgain();
    const auto loaded = store_->Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    std::vector<std::string> kept;
    if (!loaded.ok()) return kept;
    for (const core::SubscriptionRecord& record : *loaded) {
      kept.push_back(absl::StrCat(record.name(), "@", record.acknowledged_offset()));
    }
    return kept;
  }

  const std::unique_ptr<SubscriptionStorePlace> place_;
  std::unique_ptr<SubscriptionStore> store_;
};

using Names = std::vector<std::string>;

TEST_P(SubscriptionStoreConformanceTest, ARecordIsKeptWholeAndReplacedWhole) {
  EXPECT_EQ(Kept(), Names());
  ASSERT_TRUE(Put(Record("a", 7)).ok());
  OpenAgain();
  auto loaded = store_->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 1u);
  EXPECT_EQ(loaded->front().SerializeAsString(), Record("a", 7).SerializeAsString());
  core::SubscriptionRecord other = Record("a", 2);
  other.clear_request_id();
  ASSERT_TRUE(Put(other).ok());
  OpenAgain();
  loaded = store_->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 1u);
  EXPECT_EQ(loaded->front().SerializeAsString(), other.SerializeAsString());
}

TEST_P(SubscriptionStoreConformanceTest, AllAreLoadedByName) {
  for (const char* name : {"b", "c", "a", "ab"}) ASSERT_TRUE(Put(Record(name, 1)).ok());
  EXPECT_EQ(Kept(), (Names{"a@1", "ab@1", "b@1", "c@1"}));
}

TEST_P(SubscriptionStoreConformanceTest, WhatIsRemovedIsGone) {
  EXPECT_TRUE(Remove("a").ok());
  ASSERT_TRUE(Put(Record("a", 1)).ok());
  ASSERT_TRUE(Put(Record("b", 1)).ok());
  EXPECT_TRUE(Remove("a").ok());
  EXPECT_EQ(Kept(), Names{"b@1"});
  ASSERT_TRUE(Put(Record("a", 2)).ok());
  EXPECT_EQ(Kept(), (Names{"a@2", "b@1"}));
}

// Many calls at once: answered in their order, and the last of each name is what stays.
TEST_P(SubscriptionStoreConformanceTest, CallsTakeEffectInTheirOrder) {
  constexpr int kCalls = 300;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Random random(seed);
    struct Answers {
      absl::Mutex mutex;
      std::vector<int> order ABSL_GUARDED_BY(mutex);
    };
    Answers answers;
    std::map<std::string, int64_t> expected;
    for (int call = 0; call < kCalls; ++call) {
      const std::string name = absl::StrCat("s", random.Below(5));
      auto done = [&answers, call](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        absl::MutexLock lock(&answers.mutex);
        answers.order.push_back(call);
      };
      if (random.OneIn(4)) {
        expected.erase(name);
        store_->Remove(name, done);
      } else {
        expected[name] = call;
        store_->Put(Record(name, call), done);
      }
    }
    for (int name = 0; name < 5; ++name) {
      if (expected.count(absl::StrCat("s", name)) == 0) {
        EXPECT_TRUE(Remove(absl::StrCat("s", name)).ok());
      }
    }
    // Whatever came last is answered last.
    ASSERT_TRUE(Remove("none").ok());
    {
      absl::MutexLock lock(&answers.mutex);
      ASSERT_EQ(answers.order.size(), static_cast<size_t>(kCalls));
      for (int call = 0; call < kCalls; ++call) EXPECT_EQ(answers.order[call], call);
    }
    Names wanted;
    for (const auto& [name, offset] : expected) wanted.push_back(absl::StrCat(name, "@", offset));
    EXPECT_EQ(Kept(), wanted) << "seed " << seed;
  }
}

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_PORTS_SUBSCRIPTION_STORE_CONFORMANCE_H_
