// A platform on which a gang runs, and what must hold of it while too much is asked of it: health is
// told, an admin is answered at each part, no lease is lost, memory is bounded; and all is as before
// soon after nothing more is asked.
#ifndef CAPSTAN_INTEGRATION_OVERLOAD_OVERLOAD_FIXTURE_H_
#define CAPSTAN_INTEGRATION_OVERLOAD_OVERLOAD_FIXTURE_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "integration/overload/call_storm.h"
#include "integration/platform/test_platform.h"
#include "libs/rpc/identity.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "services/credentials/testing/stored_authority.h"

// Scaled up for ./dev soak overload.
#ifndef CAPSTAN_OVERLOAD_SECONDS
#define CAPSTAN_OVERLOAD_SECONDS 3
#define CAPSTAN_OVERLOAD_HELD_SECONDS 3
#define CAPSTAN_OVERLOAD_SUBMISSION_SECONDS 6
#define CAPSTAN_OVERLOAD_CONNECTIONS 2000
#define CAPSTAN_OVERLOAD_WATCHES 500
#define CAPSTAN_OVERLOAD_SESSIONS 2000
#define CAPSTAN_OVERLOAD_MAX_JOBS 1000000
// A build without optimisation, beside which others run.
#define CAPSTAN_OVERLOAD_TIMES 1
#endif

namespace capstan::integration {

inline constexpr absl::Duration kStorm = absl::Seconds(CAPSTAN_OVERLOAD_SECONDS);
inline constexpr absl::Duration kSubmissions = absl::Seconds(CAPSTAN_OVERLOAD_SUBMISSION_SECONDS);
// For what is only held open.
inline constexpr absl::Duration kHeld = absl::Seconds(CAPSTAN_OVERLOAD_HELD_SECONDS);
inline constexpr int kConnections = CAPSTAN_OVERLOAD_CONNECTIONS;
inline constexpr int kWatches = CAPSTAN_OVERLOAD_WATCHES;
inline constexpr int kSessions = CAPSTAN_OVERLOAD_SESSIONS;
// The default, or fewer: Jobs that were acknowledged are kept, and minutes of new ones would else be
// bounded by how fast the machine is.
inline constexpr int kMaxJobs = CAPSTAN_OVERLOAD_MAX_JOBS;
// Calls under way at once: as many as four connections may carry.
inline constexpr int kChannels = 4;
inline constexpr int kOutstanding = 4000;
// A storm is at least so many times what a service is made for.
inline constexpr double kTimesDesignRate = CAPSTAN_OVERLOAD_TIMES;

// Calls a second that a part is made for (docs/reliability.md, *How much a service is made for*).
int DesignRate(absl::string_view part);

class OverloadTest : public ::testing::Test {
 protected:
  using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;
  void TearDown() override;

  static BootTime Now() { return clock_.Read().boot; }
  // One that the platform's own authority vouches for, e.g. of `/node/local/n1`.
  static std::shared_ptr<rpc::Identity> IdentityOf(absl::string_view path);
  // As the researcher, unless it says otherwise.
  static std::shared_ptr<grpc::Channel> Dial(
      const std::string& part, const std::shared_ptr<rpc::Identity>& who = researcher());
  // Bounded by nothing on this side.
  static std::shared_ptr<grpc::Channel> DialUnbounded(
      const std::string& part, const std::shared_ptr<rpc::Identity>& who = researcher());
  // As many as carry a storm; empty, and a failure, if one does not come about.
  static Channels DialAll(const std::string& part,
                          const std::shared_ptr<rpc::Identity>& who = researcher());
  static bool Await(const std::shared_ptr<grpc::Channel>& channel);
  // Waits, and is not interrupted.
  void Wait(absl::Duration time) { stop_.WaitForNotificationWithTimeout(time); }

  // Asks a part without pause for a while, at least kTimesDesignRate times as often as it is made
  // for. Then all must be as before. Who is told to come again is told when.
  StormEnd Storm(absl::string_view name, const std::string& part, Channels channels, StormCall call,
                 absl::Duration lasts = kStorm, int outstanding = kOutstanding);
  // Calls have ended in each way of the first, and in none that neither names.
  static void ExpectEnds(const StormEnd& end, const std::set<grpc::StatusCode>& must,
                         const std::set<grpc::StatusCode>& may = {});
  // To be called as soon as nothing more is asked; else TearDown takes the end of the test for that.
  void StormIsOver() { over_ = Now(); }
  // Waits until all is as before, which must be within 5 s of then.
  static void ExpectNormal(BootTime since);

  static SystemClock clock_;
  static TestPlatform* platform_;
  static cli::v1::Endpoints* endpoints_;
  // Signs for anybody.
  static credentials::StoredAuthority* authority_;
  // The admin, who is to be answered, and who asks for too much.
  static std::shared_ptr<rpc::Identity>& admin();
  static std::shared_ptr<rpc::Identity>& researcher();

 private:
  struct Asked {
    absl::Duration slowest;
    int64_t times = 0;
  };

  static std::shared_ptr<rpc::Identity> IdentityOfUser(const std::string& uid);
  // Something that an admin is answered at the part.
  static grpc::Status AskAsAdmin(const std::string& part,
                                 const std::shared_ptr<grpc::Channel>& channel,
                                 absl::Duration patience);
  // Empty if all parts are ready, and quick to answer.
  static std::string WhatIsNotNormal();
  void Beat();

  absl::optional<BootTime> over_;
  absl::Notification stop_;
  std::unique_ptr<ThreadStrand> beating_;
  // The admin's, by part.
  std::map<std::string, std::shared_ptr<grpc::Channel>> admin_channels_;
  // Of that strand.
  absl::Duration slowest_health_;
  std::map<std::string, Asked> admin_asked_;
  std::vector<std::string> failures_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_OVERLOAD_OVERLOAD_FIXTURE_H_
