// What of the client needs a real API server to be known, beyond api_conformance.h.
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_client_test_base.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/client/await.h"
#include "libs/kube/client/review_calls.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/events/event_core.h"
#include "libs/kube/events/event_recorder.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/status/error.h"
#include "nlohmann/json.hpp"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {
namespace {

using Part = testenv::KubernetesCluster::Part;

constexpr absl::Duration kLong = absl::Minutes(1);

class RealClientTest : public RealClientTestBase {
 protected:
  absl::Status MakeMaps(int count) {
    std::vector<std::thread> threads;
    std::atomic<int> next{0};
    std::vector<absl::Status> statuses(8);
    for (absl::Status& status : statuses) {
      threads.emplace_back([&, count] {
        for (int i; (i = next++) < count && status.ok();) {
          core_v1::ConfigMap map;
          map.mutable_metadata()->set_name(absl::StrCat("m-", i));
          map.mutable_metadata()->set_namespace_(ns_);
          status = client_->Of(kConfigMaps).Create(map).status();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Of a ServiceAccount.
  std::string Token(const std::string& account) {
    authentication_v1::TokenRequestSpec spec;
    spec.set_expiration_seconds(600);
    const auto made =
        Await<ObjectPtr<authentication_v1::TokenRequest>>(client_->strand(), [&](auto done) {
          return RequestToken(client_->client(), ns_, account, spec, std::move(done));
        });
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? (*made)->status().token() : "";
  }

  static void WriteToken(const std::string& path, const std::string& text) {
    std::ofstream(path + ".new") << text;
    EXPECT_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
  }

  static absl::StatusOr<nlohmann::json> WhoAmI(RealClient* client) {
    return client->Json("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                        R"({"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"})");
  }
};

// Without what is zero or empty, which the two encodings do not show alike.
nlohmann::json Pruned(const nlohmann::json& json) {
  if (json.is_object()) {
    nlohmann::json kept = nlohmann::json::object();
    for (const auto& [name, value] : json.items()) {
      nlohmann::json pruned = Pruned(value);
      if (!pruned.is_null()) kept[name] = std::move(pruned);
    }
    return kept.empty() ? nlohmann::json() : kept;
  }
  if (json.is_array()) {
    nlohmann::json kept = nlohmann::json::array();
    for (const nlohmann::json& value : json) kept.push_back(Pruned(value));
    return kept.empty() ? nlohmann::json() : kept;
  }
  const bool nothing = json == 0 || json == false || json == "";
  return nothing ? nlohmann::json() : json;
}

template <typename T>
void ExpectBothEncodings(RealClient* client, const TypedResource<T>& resource,
                         const std::string& ns, const std::string& spec) {
  SCOPED_TRACE(absl::StrCat(resource.group, "/", resource.kind));
  T object;
  ASSERT_TRUE(JsonToMessage(spec, &object).ok());
  object.mutable_metadata()->set_name(absl::StrCat(ns, "-both"));
  if (resource.namespaced) object.mutable_metadata()->set_namespace_(ns);
  (*object.mutable_metadata()->mutable_labels())["a"] = "b";
  const std::string where = resource.namespaced ? ns : "";
  const auto made = client->Of(resource).Create(object);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE((*made)->metadata().uid().empty());
  // Controllers write some of them right after they are made: two reads of one version.
  const absl::Time deadline = absl::Now() + kLong;
  while (true) {
    const auto read = client->Of(resource).Get(where, object.metadata().name());
    ASSERT_TRUE(read.ok()) << read.status();
    const auto json =
        client->Json("GET", ObjectPath(resource.type(), where, object.metadata().name()));
    ASSERT_TRUE(json.ok()) << json.status();
    if ((*json)["metadata"]["resourceVersion"] != (*read)->metadata().resource_version()) {
      ASSERT_LT(absl::Now(), deadline);
      continue;
    }
    T from_json;
    ASSERT_TRUE(JsonToMessage(json->dump(), &from_json).ok());
    const auto left = MessageToJson("", "", **read);
    const auto right = MessageToJson("", "", from_json);
    ASSERT_TRUE(left.ok()) << left.status();
    ASSERT_TRUE(right.ok()) << right.status();
    EXPECT_EQ(Pruned(nlohmann::json::parse(*left)), Pruned(nlohmann::json::parse(*right)));
    EXPECT_EQ(nlohmann::json::parse(*right)["metadata"]["labels"]["a"], "b");
    break;
  }
  const auto gone = client->Of(resource).Delete(where, object.metadata().name(), {});
  EXPECT_TRUE(gone.ok()) << gone.status();
}

TEST_F(RealClientTest, EveryTypeIsMadeByProtobufAndReadAlikeInBothEncodings) {
  RealClient* const c = client_.get();
  const std::string pod_spec =
      R"({"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i",
      "ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"100m","memory":"1Gi"}},
      "env":[{"name":"E","value":"v"}]}]}})";
  ExpectBothEncodings(c, kConfigMaps, ns_, R"({"data":{"k":"v"},"binaryData":{"b":"AAEC"}})");
  ExpectBothEncodings(c, kSecrets, ns_, R"({"type":"Opaque","data":{"k":"AAEC"}})");
  ExpectBothEncodings(c, kServiceAccounts, ns_, "{}");
  ExpectBothEncodings(c, kNamespaces, ns_, "{}");
  ExpectBothEncodings(c, kNodes, ns_,
                      R"({"spec":{"taints":[{"key":"k","value":"v","effect":"NoSchedule"}]}})");
  ExpectBothEncodings(c, kPods, ns_, pod_spec);
  ExpectBothEncodings(c, kPersistentVolumes, ns_,
                      R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                      "hostPath":{"path":"/tmp"}}})");
  ExpectBothEncodings(c, kPersistentVolumeClaims, ns_,
                      R"({"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"none",
                      "resources":{"requests":{"storage":"1Gi"}}}})");
  ExpectBothEncodings(
      c, kCoreEvents, ns_,
      absl::StrCat(R"({"involvedObject":{"kind":"Pod","name":"p","namespace":")", ns_,
                   R"("},"reason":"R","message":"m","type":"Normal",
                   "firstTimestamp":"2026-01-02T03:04:05Z","lastTimestamp":"2026-01-02T03:04:05Z",
                   "count":2})"));
  ExpectBothEncodings(
      c, kEvents, ns_,
      absl::StrCat(R"({"eventTime":"2026-01-02T03:04:05.000006Z","reportingController":"x/y",
                   "reportingInstance":"z","action":"A","reason":"R","type":"Normal",
                   "regarding":{"kind":"Pod","name":"p","namespace":")",
                   ns_, R"("}})"));
  ExpectBothEncodings(c, kLeases, ns_,
                      R"({"spec":{"holderIdentity":"h","leaseDurationSeconds":5,
                      "renewTime":"2026-01-02T03:04:05.000006Z"}})");
  ExpectBothEncodings(
      c, kDeployments, ns_,
      absl::StrCat(R"({"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"strategy":{
                   "rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":)",
                   pod_spec, "}}"));
  ExpectBothEncodings(
      c, kDaemonSets, ns_,
      absl::StrCat(R"({"spec":{"selector":{"matchLabels":{"a":"b"}},"template":)", pod_spec, "}}"));
  ExpectBothEncodings(c, kPodDisruptionBudgets, ns_,
                      R"({"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}})");
}

TEST_F(RealClientTest, FieldsThatOurMessagesLackSurviveAnUpdateByProtobuf) {
  const std::string path = absl::StrCat("/api/v1/namespaces/", ns_, "/pods");
  const auto made = client_->Json("POST", path,
                                  R"({"metadata":{"name":"p"},"spec":{"schedulerName":"nobody",
      "containers":[{"name":"c","image":"i","tty":true,"stdin":true}],"shareProcessNamespace":true,
      "hostAliases":[{"ip":"10.0.0.1","hostnames":["a","b"]}],
      "dnsConfig":{"options":[{"name":"ndots","value":"3"}]},
      "topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":
        "ScheduleAnyway","labelSelector":{"matchLabels":{"x":"y"}}}]}})");
  ASSERT_TRUE(made.ok()) << made.status();
  const auto read = client_->Of(kPods).Get(ns_, "p");
  ASSERT_TRUE(read.ok()) << read.status();
  core_v1::Pod pod = **read;
  (*pod.mutable_metadata()->mutable_labels())["changed"] = "yes";
  const auto updated = client_->Of(kPods).Update(pod);
  ASSERT_TRUE(updated.ok()) << updated.status();
  const auto after = client_->Json("GET", path + "/p");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ((*after)["metadata"]["labels"]["changed"], "yes");
  EXPECT_EQ((*after)["spec"], (*made)["spec"]);
  EXPECT_EQ((*after)["spec"]["hostAliases"][0]["hostnames"][1], "b");
}

TEST_F(RealClientTest, AVersionThatEtcdHasCompactedIsExpired) {
  ASSERT_TRUE(MakeMaps(20).ok());
  ListOptions paged;
  paged.limit = 5;
  const auto first = client_->Of(kConfigMaps).List(ns_, paged);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(client_->Of(kConfigMaps).Delete(ns_, "m-1", {}).ok());
  ASSERT_TRUE(cluster_->CompactEtcd().ok());
  // Else its memory of past states would answer.
  cluster_->Kill(Part::kApiServer);
  ASSERT_TRUE(cluster_->Restart(Part::kApiServer).ok());
  ListOptions next = paged;
  next.continue_token = first->continue_token;
  const auto page = client_->Of(kConfigMaps).List(ns_, next);
  EXPECT_TRUE(IsExpired(page.status())) << page.status();
  EXPECT_EQ(HttpStatusOf(page.status()), 410);
  ListOptions exact;
  exact.resource_version = first->resource_version;
  exact.resource_version_match = "Exact";
  const auto old = client_->Of(kConfigMaps).List(ns_, exact);
  EXPECT_TRUE(IsExpired(old.status())) << old.status();
  const auto all = client_->Of(kConfigMaps).ListAll(ns_, paged);
  ASSERT_TRUE(all.ok()) << all.status();
}

TEST_F(RealClientTest, ATokenIsReplacedUnderCallsAndADeletedAccountIsRefused) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", ns_, ".token");
  core_v1::ServiceAccount account;
  account.mutable_metadata()->set_name("robot");
  account.mutable_metadata()->set_namespace_(ns_);
  ASSERT_TRUE(client_->Of(kServiceAccounts).Create(account).ok());
  WriteToken(path, Token("robot"));

  ClientConfig config = config_;
  GivenCredential given;
  given.token.path = path;
  config.credential = given;
  RealClient robot(config);
  const auto who = [&] { return WhoAmI(&robot); };
  std::atomic<bool> stop{false};
  std::thread caller([&] {
    while (!stop) {
      const auto said = who();
      EXPECT_TRUE(said.ok()) << said.status();
      if (said.ok()) {
        EXPECT_EQ((*said)["status"]["userInfo"]["username"],
                  absl::StrCat("system:serviceaccount:", ns_, ":robot"));
      }
    }
  });
  for (int i = 0; i < 5; ++i) WriteToken(path, Token("robot"));
  stop = true;
  caller.join();

  ASSERT_TRUE(client_->Of(kServiceAccounts).Delete(ns_, "robot", {}).ok());
  // The server remembers for 10 s that a token was good.
  const absl::Time deadline = absl::Now() + kLong;
  absl::Status refused;
  while ((refused = who().status()).ok()) ASSERT_LT(absl::Now(), deadline);
  EXPECT_EQ(HttpStatusOf(refused), 401) << refused;
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(status::Reason(refused), kUnauthorized);

  // The same name, another uid: a new token, which is read since the old one was rejected.
  ASSERT_TRUE(client_->Of(kServiceAccounts).Create(account).ok());
  WriteToken(path, Token("robot"));
  const auto again = who();
  EXPECT_TRUE(again.ok()) << again.status();
}

// As the server gives one, signed by its own key.
std::string SignedToken(const testenv::KubernetesCluster& cluster, const std::string& ns,
                        const std::string& account, const std::string& uid, absl::Time expiry) {
  const std::string folder = cluster.ca_file().substr(0, cluster.ca_file().rfind('/'));
  std::FILE* const file = std::fopen((folder + "/sa.key").c_str(), "r");
  EXPECT_NE(file, nullptr);
  if (file == nullptr) return "";
  EVP_PKEY* const key = PEM_read_PrivateKey(file, nullptr, nullptr, nullptr);
  std::fclose(file);
  EXPECT_NE(key, nullptr);
  const int64_t end = absl::ToUnixSeconds(expiry);
  const nlohmann::json claims = {
      {"iss", cluster.url()},
      {"aud", {cluster.url()}},
      {"sub", absl::StrCat("system:serviceaccount:", ns, ":", account)},
      {"iat", end - 7200},
      {"nbf", end - 7200},
      {"exp", end},
      {"kubernetes.io",
       {{"namespace", ns}, {"serviceaccount", {{"name", account}, {"uid", uid}}}}}};
  std::string text;
  absl::WebSafeBase64Escape(R"({"alg":"RS256","typ":"JWT"})", &text);
  std::string payload;
  absl::WebSafeBase64Escape(claims.dump(), &payload);
  absl::StrAppend(&text, ".", payload);
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  EXPECT_EQ(EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key), 1);
  size_t size = 0;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  EXPECT_EQ(EVP_DigestSign(context, nullptr, &size, bytes, text.size()), 1);
  std::string signature(size, '\0');
  EXPECT_EQ(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                           bytes, text.size()),
            1);
  signature.resize(size);
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(key);
  std::string encoded;
  absl::WebSafeBase64Escape(signature, &encoded);
  return absl::StrCat(text, ".", encoded);
}

TEST_F(RealClientTest, AnExpiredTokenIsRefusedUntilAFreshOneLiesThere) {
  core_v1::ServiceAccount account;
  account.mutable_metadata()->set_name("robot");
  account.mutable_metadata()->set_namespace_(ns_);
  const auto made = client_->Of(kServiceAccounts).Create(account);
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string path = absl::StrCat(::testing::TempDir(), "/", ns_, ".token");
  const auto write = [&](absl::Duration left) {
    WriteToken(path,
               SignedToken(*cluster_, ns_, "robot", (*made)->metadata().uid(), absl::Now() + left));
  };
  write(absl::Hours(1));
  ClientConfig config = config_;
  GivenCredential given;
  given.token.path = path;
  config.credential = given;
  {
    RealClient robot(config);
    const auto good = WhoAmI(&robot);
    ASSERT_TRUE(good.ok()) << good.status();
  }
  write(-absl::Hours(1));
  RealClient robot(config);
  const auto refused = WhoAmI(&robot);
  EXPECT_EQ(HttpStatusOf(refused.status()), 401) << refused.status();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnauthenticated);
  // Read anew since the one before was refused.
  WriteToken(path, Token("robot"));
  const auto said = WhoAmI(&robot);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ((*said)["status"]["userInfo"]["username"],
            absl::StrCat("system:serviceaccount:", ns_, ":robot"));
}

TEST_F(RealClientTest, ScalesACustomResource) {
  ASSERT_TRUE(ServeWidgets(client_.get()).ok());
  const auto widgets = client_->Of(WidgetType());
  ASSERT_TRUE(widgets
                  .Create(ObjectOf({{"apiVersion", "test.capstan.dev/v1"},
                                    {"kind", "Widget"},
                                    {"metadata", {{"name", "a"}, {"namespace", ns_}}},
                                    {"spec", {{"replicas", 1}, {"other", "x"}}}}))
                  .ok());
  const auto scale = widgets.GetScale(ns_, "a");
  ASSERT_TRUE(scale.ok()) << scale.status();
  EXPECT_EQ((*scale)->spec().replicas(), 1);
  autoscaling_v1::Scale wanted = **scale;
  wanted.mutable_spec()->set_replicas(3);
  const auto updated = widgets.UpdateScale(wanted);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ((*updated)->spec().replicas(), 3);
  // The version is that of before.
  EXPECT_TRUE(IsConflict(widgets.UpdateScale(wanted).status()));
  const auto patched =
      widgets.PatchScale(ns_, "a", PatchType::kMerge, R"({"spec":{"replicas":0}})", {});
  ASSERT_TRUE(patched.ok()) << patched.status();
  const auto widget = widgets.Get(ns_, "a");
  ASSERT_TRUE(widget.ok()) << widget.status();
  EXPECT_EQ((*widget)->ToJson()["spec"], (nlohmann::json{{"replicas", 0}, {"other", "x"}}));
}

TEST_F(RealClientTest, EventsAreCountedInSeries) {
  core_v1::ConfigMap map;
  map.mutable_metadata()->set_name("about");
  map.mutable_metadata()->set_namespace_(ns_);
  const auto made = client_->Of(kConfigMaps).Create(map);
  ASSERT_TRUE(made.ok()) << made.status();
  EventOptions options;
  options.reporting_controller = "test.capstan.dev/events";
  options.reporting_instance = "one";
  EventRecorder recorder(options, {client_->client(), 1, {}});
  EventRecord record;
  record.regarding = ReferenceTo(kConfigMaps, **made);
  record.type = EventType::kWarning;
  record.reason = "Broke";
  record.action = "Test";
  record.note = "it broke";
  EXPECT_TRUE(recorder.Record(record));
  const absl::Time deadline = absl::Now() + kLong;
  while (recorder.stats().written < 1) ASSERT_LT(absl::Now(), deadline);
  EXPECT_TRUE(recorder.Record(record));
  EXPECT_TRUE(recorder.Record(record));
  // The server refuses what is no proper Event.
  record.reason = "";
  EXPECT_TRUE(recorder.Record(record));
  recorder.Stop(kLong);
  EXPECT_EQ(recorder.stats(), (EventStats{4, 0, 3, 1}));
  const auto events = client_->Of(kEvents).List(ns_, {});
  ASSERT_TRUE(events.ok()) << events.status();
  int about = 0;
  for (const auto& event : events->items) {
    if (event->regarding().name() != "about") continue;
    ++about;
    EXPECT_EQ(event->regarding().uid(), (*made)->metadata().uid());
    EXPECT_EQ(event->series().count(), 3);
    EXPECT_EQ(event->note(), "it broke");
    EXPECT_EQ(event->type(), "Warning");
    EXPECT_EQ(event->reporting_instance(), "one");
  }
  EXPECT_EQ(about, 1);
}

}  // namespace
}  // namespace capstan::kube::testing
