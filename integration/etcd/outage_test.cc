// A cluster that has lost most of its members or its leader, as its users see it.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "integration/etcd/cluster_fixture.h"
#include "integration/etcd/open_store.h"
#include "integration/etcd/test_store.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/store/etcd_options.h"
#include "libs/store/leadership.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::store {
namespace {

class EtcdOutageTest : public EtcdClusterTest {
 protected:
  static EtcdOptions Options() {
    EtcdOptions options = OptionsFor(*etcd_);
    options.attempt_timeout = absl::Milliseconds(700);
    return options;
  }
};

TEST_F(EtcdOutageTest, WithoutAQuorumCallsEndInTimeAndGoOnAfterwards) {
  EtcdOptions options = Options();
  options.call_timeout = absl::Seconds(2);
  OpenStore store(options);
  ASSERT_NE(store.get(), nullptr);
  const auto put = store.Txn({.then = {Put{"/quorum", "1"}}});
  ASSERT_TRUE(put.ok()) << put.status();
  absl::Mutex mutex;
  int64_t watched = 0;
  absl::Status ended;
  const auto watch =
      store.get()->StartWatch({.key = "/quorum", .end = "", .start_revision = put->revision},
                              [&](absl::StatusOr<WatchBatch> batch) {
                                absl::MutexLock lock(&mutex);
                                if (batch.ok()) watched = batch->revision;
                                ended.Update(batch.status());
                              });

  etcd_->Stop(1);
  etcd_->Stop(2);
  const SystemClock clock;
  const BootTime begun = clock.Read().boot;
  std::vector<absl::Status> failed(3);
  int answered = 0;
  // The first may be on its way; those behind it wait, and were surely not sent.
  absl::Mutex answers;
  for (int i = 0; i < 3; ++i) {
    store.get()->Txn({.then = {Put{"/quorum", absl::StrCat("lost-", i)}}},
                     [&, i](absl::StatusOr<TxnResult> result) {
                       absl::MutexLock lock(&answers);
                       failed[i] = result.status();
                       ++answered;
                     });
  }
  const auto read = store.Range({.key = "/quorum"});
  EXPECT_EQ(status::Reason(read.status()), "STORE_UNREACHABLE") << read.status();
  {
    absl::MutexLock lock(&answers);
    const auto all = [&] { return answered == 3; };
    ASSERT_TRUE(answers.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(20)));
    EXPECT_EQ(status::Reason(failed[0]), "OUTCOME_UNKNOWN") << failed[0];
    EXPECT_EQ(status::Reason(failed[1]), "STORE_UNREACHABLE") << failed[1];
    EXPECT_EQ(status::Reason(failed[2]), "STORE_UNREACHABLE") << failed[2];
  }
  EXPECT_LT(clock.Read().boot - begun, absl::Seconds(10));

  etcd_->Continue(1);
  etcd_->Continue(2);
  // What failed stays so: those that were not sent never come, the other one not after this.
  absl::StatusOr<TxnResult> again = absl::UnknownError("not tried");
  for (int i = 0; i < 20 && !again.ok(); ++i) again = store.Txn({.then = {Put{"/quorum", "2"}}});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto found = store.Range({.key = "/quorum"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->kvs[0].value, "2");
  EXPECT_LE(found->kvs[0].version, 3);
  absl::MutexLock lock(&mutex);
  const auto told = [&] { return watched == again->revision || !ended.ok(); };
  EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&told), absl::Seconds(20)));
  EXPECT_TRUE(ended.ok()) << ended;
}

// Between two looks at what changes by itself.
void Pause() {
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  const bool never = false;
  mutex.AwaitWithTimeout(absl::Condition(&never), absl::Milliseconds(20));
}

// A candidate for leadership, with a store and a strand of its own, as a process would have.
class Candidate {
 public:
  Candidate(EtcdOptions options, const std::string& name) : store_(std::move(options)) {
    OnStrand([&] {
      leadership_ =
          std::make_unique<Leadership>(store_.get(), store_.strand(),
                                       Leadership::Options{.key = "/leader",
                                                           .value = name,
                                                           .ttl = absl::Seconds(2),
                                                           .margin = absl::Milliseconds(200),
                                                           .retry_after = absl::Milliseconds(100)});
      leadership_->Start({.on_gained =
                              [this] {
                                absl::MutexLock lock(&mutex_);
                                leads_ = true;
                              },
                          .on_lost =
                              [this](absl::Status) {
                                absl::MutexLock lock(&mutex_);
                                leads_ = false;
                              }});
    });
  }
  // Like kill -9: nothing is resigned.
  ~Candidate() {
    OnStrand([&] { leadership_.reset(); });
  }

  bool AwaitLead(absl::Duration patience) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&leads_), patience);
  }

  // When it may speak next, at least until then: [now, end) if it may.
  struct Term {
    bool valid = false;
    int64_t epoch = 0;
    BootTime from;
    BootTime until;
  };
  Term Look() {
    Term term;
    OnStrand([&] {
      term.valid = leadership_->Valid();
      term.epoch = leadership_->epoch();
      term.from = store_.strand()->clock().Read().boot;
      term.until = leadership_->ValidUntil();
    });
    return term;
  }

 private:
  template <typename F>
  void OnStrand(F f) {
    absl::Notification done;
    store_.strand()->Post([&] {
      f();
      done.Notify();
    });
    done.WaitForNotification();
  }

  OpenStore store_;
  std::unique_ptr<Leadership> leadership_;
  absl::Mutex mutex_;
  bool leads_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST_F(EtcdOutageTest, NoTwoLeadWhileMembersFailAndADeadLeaderIsReplaced) {
  std::vector<std::unique_ptr<Candidate>> candidates;
  for (const char* name : {"one", "two"}) {
    candidates.push_back(std::make_unique<Candidate>(Options(), name));
  }
  std::vector<Candidate::Term> terms;
  const SystemClock clock;
  Random random(1);
  for (int fault = 0; fault < 3; ++fault) {
    const int member = static_cast<int>(random.Below(3));
    const bool kill = random.OneIn(2);
    kill ? etcd_->Kill(member) : etcd_->Stop(member);
    // Long enough for an election, and for a lease to run out.
    bool led = false;
    const BootTime end = clock.Read().boot + absl::Milliseconds(2500);
    while (clock.Read().boot < end) {
      for (const auto& candidate : candidates) {
        const Candidate::Term term = candidate->Look();
        if (!term.valid) continue;
        terms.push_back(term);
        led = true;
      }
      Pause();
    }
    EXPECT_TRUE(led) << "nobody leads with two members of three";
    if (kill) {
      ASSERT_TRUE(etcd_->Restart(member).ok());
    } else {
      etcd_->Continue(member);
    }
  }

  // The leader's process dies.
  ASSERT_TRUE(candidates[0]->AwaitLead(absl::Milliseconds(1)) ||
              candidates[1]->AwaitLead(absl::Seconds(20)));
  const size_t leader = candidates[0]->Look().valid ? 0 : 1;
  terms.push_back(candidates[leader]->Look());
  const BootTime died = clock.Read().boot;
  candidates[leader].reset();
  ASSERT_TRUE(candidates[1 - leader]->AwaitLead(absl::Seconds(20)));
  const absl::Duration took = clock.Read().boot - died;
  terms.push_back(candidates[1 - leader]->Look());
  std::printf("a dead leader with a TTL of 2 s was replaced after %s\n",
              absl::FormatDuration(took).c_str());
  EXPECT_LT(took, absl::Seconds(5));

  // Times during which two could speak would overlap.
  for (const Candidate::Term& a : terms) {
    for (const Candidate::Term& b : terms) {
      if (a.epoch >= b.epoch) continue;
      EXPECT_LE(a.until, b.from) << a.epoch << " and " << b.epoch;
    }
  }
}

}  // namespace
}  // namespace capstan::store
