// What happens to calls that the API server's priority and fairness sheds.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_client_test_base.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/client/await.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/response.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/objects/resources.h"
#include "libs/status/error.h"
#include "nlohmann/json.hpp"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {
namespace {

constexpr absl::Duration kLong = absl::Minutes(1);

// A user of the namespace's name, whose calls are of a flow and a priority level of that name. The
// level has no seats. The server then lets one request in where none is under way, and refuses what
// comes beside it.
class ThrottlingTest : public RealClientTestBase {
 protected:
  void SetUp() override {
    RealClientTestBase::SetUp();
    if (HasFatalFailure()) return;
    const std::string api = "/apis/flowcontrol.apiserver.k8s.io/v1/";
    level_ = Make(api + "prioritylevelconfigurations",
                  {{"metadata", {{"name", ns_}}},
                   {"spec",
                    {{"type", "Limited"},
                     {"limited",
                      {{"nominalConcurrencyShares", 0},
                       {"lendablePercent", 0},
                       {"borrowingLimitPercent", 0},
                       {"limitResponse", {{"type", "Reject"}}}}}}}});
    const nlohmann::json subject = {{"kind", "User"}, {"user", {{"name", ns_}}}};
    const nlohmann::json everything = {{"verbs", {"*"}},
                                       {"apiGroups", {"*"}},
                                       {"resources", {"*"}},
                                       {"namespaces", {"*"}},
                                       {"clusterScope", true}};
    schema_ = Make(api + "flowschemas",
                   {{"metadata", {{"name", ns_}}},
                    {"spec",
                     {{"matchingPrecedence", 2},
                      {"priorityLevelConfiguration", {{"name", ns_}}},
                      {"rules", {{{"subjects", {subject}}, {"resourceRules", {everything}}}}}}}});
    config_.impersonation.user = ns_;
    once_.retry.max_attempts = 1;
  }

  // The uid of what is made.
  std::string Make(const std::string& path, const nlohmann::json& object) {
    const auto made = client_->Json("POST", path, object.dump());
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->at("/metadata/uid"_json_pointer).get<std::string>() : "";
  }

  static std::string Said(const absl::Status& status, const std::string& name) {
    const auto info = status::GetErrorInfo(status);
    return info.has_value() && info->metadata.count(name) > 0 ? info->metadata.at(name) : "";
  }

  // Until the server has loaded the flow. The user has no rights: each call is refused, and says of
  // which flow it was.
  void AwaitFlow(RealClient* user) {
    const absl::Time deadline = absl::Now() + kLong;
    absl::Status refused;
    while (Said(refused = user->Of(kConfigMaps).List(ns_, {}).status(), "flow_schema_uid") !=
           schema_) {
      ASSERT_LT(absl::Now(), deadline) << refused;
    }
    EXPECT_EQ(Said(refused, "priority_level_uid"), level_);
  }

  // Of the flow, since the server began.
  int64_t Refusals() {
    ApiRequest request;
    request.target = "/metrics";
    request.repeat = Repeat::kHarmless;
    const auto metrics = Await<ApiResponse>(client_->strand(), [&](auto done) {
      return client_->client()->Start(std::move(request), std::move(done));
    });
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    int64_t sum = 0;
    if (!metrics.ok()) return sum;
    const std::string head =
        absl::StrCat("apiserver_flowcontrol_rejected_requests_total{flow_schema=\"", ns_, "\",");
    for (const absl::string_view line : absl::StrSplit(metrics->body, '\n')) {
      int64_t count = 0;
      if (absl::StartsWith(line, head) &&
          absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &count)) {
        sum += count;
      }
    }
    return sum;
  }

  ClientOptions once_;
  std::string level_;
  std::string schema_;
};

TEST_F(ThrottlingTest, ARefusalSaysOfWhichFlowTheCallWas) {
  RealClient user(config_, once_);
  AwaitFlow(&user);
}

TEST_F(ThrottlingTest, WhatIsShedIsMadeAgainAndSucceedsWhenThereIsASeat) {
  RealClient probe(config_, once_);
  AwaitFlow(&probe);
  Make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
       {{"metadata", {{"name", ns_}}},
        {"roleRef",
         {{"apiGroup", "rbac.authorization.k8s.io"},
          {"kind", "ClusterRole"},
          {"name", "cluster-admin"}}},
        {"subjects",
         {{{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "User"}, {"name", ns_}}}}});
  const absl::Time deadline = absl::Now() + kLong;
  absl::Status status;
  while (!(status = probe.Of(kConfigMaps).List(ns_, {}).status()).ok()) {
    ASSERT_LT(absl::Now(), deadline) << status;
  }

  // The server keeps such a call for seconds, in case the version comes.
  ListOptions of_the_future;
  of_the_future.resource_version = "999999999999";
  of_the_future.resource_version_match = "NotOlderThan";
  RealClient holder(config_, once_);
  ClientOptions many;
  many.retry.max_attempts = 50;
  RealClient patient(config_, many);
  absl::Duration least = absl::ZeroDuration();
  // Again if a call has come where no holder's was under way.
  for (int round = 0; least < absl::Seconds(1); ++round) {
    ASSERT_LT(absl::Now(), deadline);
    std::atomic<bool> stop{false};
    std::thread holding([&] {
      while (!stop) EXPECT_FALSE(holder.Of(kSecrets).List(ns_, of_the_future).ok());
    });
    absl::Status shed;
    while ((shed = probe.Of(kConfigMaps).List(ns_, {}).status()).ok() && absl::Now() < deadline) {
    }
    EXPECT_TRUE(IsTooManyRequests(shed)) << shed;
    EXPECT_EQ(HttpStatusOf(shed), 429) << shed;
    EXPECT_EQ(shed.code(), absl::StatusCode::kResourceExhausted) << shed;
    EXPECT_GE(RetryAfter(shed).value_or(absl::ZeroDuration()), absl::Seconds(1)) << shed;
    EXPECT_EQ(Said(shed, "flow_schema_uid"), schema_);
    EXPECT_EQ(Said(shed, "priority_level_uid"), level_);

    const int64_t before = Refusals();
    EXPECT_GT(before, 0);
    std::atomic<int> done{0};
    absl::Duration took[2];
    const auto timed = [&](int i, const std::function<absl::Status()>& call) {
      return std::thread([&, i, call] {
        const absl::Time start = absl::Now();
        const absl::Status end = call();
        EXPECT_TRUE(end.ok()) << end;
        took[i] = absl::Now() - start;
        ++done;
      });
    };
    std::thread reading = timed(0, [&] { return patient.Of(kConfigMaps).List(ns_, {}).status(); });
    // Harmful to make twice, but what was shed was not carried out.
    std::thread writing = timed(1, [&] {
      core_v1::ConfigMap map;
      map.mutable_metadata()->set_name(absl::StrCat("round-", round));
      map.mutable_metadata()->set_namespace_(ns_);
      return patient.Of(kConfigMaps).Create(map).status();
    });
    while (Refusals() < before + 4 && done < 2 && absl::Now() < deadline) {
    }
    stop = true;
    holding.join();
    reading.join();
    writing.join();
    least = std::min(took[0], took[1]);
  }
}

}  // namespace
}  // namespace capstan::kube::testing
