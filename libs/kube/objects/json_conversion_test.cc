#include "libs/kube/objects/json_conversion.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "libs/kube/objects/object_error.h"
#include "libs/kube/objects/resources.h"
#include "libs/status/error.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

using Json = nlohmann::json;

struct Same {
  const char* api_version;
  const char* kind;
  // Without apiVersion and kind.
  const char* json;
};

// If one fails, a field changes on its way through protobuf, or is lost.
TEST(JsonConversion, WhatBothSidesHaveSurvivesTheWayThereAndBack) {
  const std::vector<Same> cases = {
      {"v1", "ConfigMap", R"({"metadata":{"name":"a"},"data":{"k":"v","e":""}})"},
      {"v1", "ConfigMap", R"({"binaryData":{"k":"AAH/"},"immutable":false})"},
      {"v1", "Secret", R"({"type":"Opaque","data":{"k":"c2VjcmV0"}})"},
      {"v1", "Pod",
       R"({"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"7","generation":3,
           "creationTimestamp":"2026-01-02T03:04:05Z","deletionGracePeriodSeconds":0,
           "labels":{"a":"b"},"finalizers":["x/y"],
           "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u",
                               "controller":true}],
           "managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1",
                             "time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1",
                             "fieldsV1":{"f:spec":{"f:a":{}}}}]}})"},
      {"v1", "Pod",
       R"({"spec":{"nodeName":"n","hostPID":true,
           "containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"hostIP":"1.2.3.4"}],
             "env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}],
             "resources":{"limits":{"cpu":"100m","memory":"1Gi"}}}],
           "volumes":[{"name":"d","emptyDir":{}},
                      {"name":"c","configMap":{"name":"m","defaultMode":420}},
                      {"name":"p","persistentVolumeClaim":{"claimName":"x","readOnly":true}}],
           "tolerations":[{"key":"k","operator":"Exists","tolerationSeconds":300}]}})"},
      {"v1", "Pod", R"({"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"hostIP":"h",
                        "containerStatuses":[{"name":"c","imageID":"i","restartCount":0,
                          "state":{"terminated":{"exitCode":1,
                                                 "finishedAt":"2026-01-02T03:04:05Z"}}}]}})"},
      {"v1", "Node", R"({"spec":{"podCIDR":"10.0.0.0/24","providerID":"p","taints":[
                          {"key":"k","effect":"NoSchedule"}]},
                         "status":{"allocatable":{"nvidia.com/gpu":"8"},
                                   "daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},
                                   "nodeInfo":{"machineID":"m","systemUUID":"s"}}})"},
      {"v1", "PersistentVolume",
       R"({"spec":{"capacity":{"storage":"1Gi"},"hostPath":{"path":"/x"}}})"},
      {"apps/v1", "Deployment",
       R"({"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},
           "strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}}}})"},
      {"policy/v1", "PodDisruptionBudget",
       R"({"spec":{"minAvailable":0,"selector":{}},
           "status":{"disruptedPods":{"p":"2026-01-02T03:04:05Z"}}})"},
      {"coordination.k8s.io/v1", "Lease",
       R"({"spec":{"holderIdentity":"me","leaseDurationSeconds":15,
           "renewTime":"2026-01-02T03:04:05.000006Z","acquireTime":"2026-01-02T03:04:05.000000Z"}})"},
      {"authentication.k8s.io/v1", "TokenReview",
       R"({"status":{"authenticated":true,"user":{"username":"u","extra":{"k":["a","b"]}}}})"},
      {"v1", "Status", R"({"status":"Failure","code":429,"reason":"TooManyRequests",
           "details":{"retryAfterSeconds":1,"causes":[{"reason":"DisruptionBudget"}]}})"},
      {"policy/v1", "Eviction",
       R"({"deleteOptions":{"gracePeriodSeconds":0,"preconditions":{"uid":"u"}}})"},
  };
  for (const Same& one : cases) {
    const auto message = BuiltinConverter().ToProtobuf(one.api_version, one.kind, one.json);
    ASSERT_TRUE(message.ok()) << one.json << message.status();
    const auto json = BuiltinConverter().ToJson(one.api_version, one.kind, *message);
    ASSERT_TRUE(json.ok()) << one.json << json.status();
    Json expected = Json::parse(one.json);
    expected["apiVersion"] = one.api_version;
    expected["kind"] = one.kind;
    EXPECT_EQ(Json::parse(*json), expected);
  }
}

TEST(JsonConversion, ReadsWhatTheServerWritesInOtherWays) {
  const auto to_json = [](const char* kind, const char* json) {
    const auto message = BuiltinConverter().ToProtobuf("v1", kind, json);
    EXPECT_TRUE(message.ok()) << message.status();
    Json out = Json::parse(*BuiltinConverter().ToJson("v1", kind, *message));
    out.erase("apiVersion");
    out.erase("kind");
    return out;
  };
  // A number for a quantity; times with an offset; nulls; fields that no message has.
  EXPECT_EQ(to_json("Node", R"({"status":{"capacity":{"cpu":4}}})"),
            Json::parse(R"({"status":{"capacity":{"cpu":"4"}}})"));
  EXPECT_EQ(to_json("Pod", R"({"metadata":{"creationTimestamp":"2026-01-02T05:04:05+02:00"}})"),
            Json::parse(R"({"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"}})"));
  EXPECT_EQ(to_json("Pod", R"({"metadata":{"creationTimestamp":null},"spec":null,"new":{"x":1}})"),
            Json::parse(R"({"metadata":{}})"));
}

// If it fails, a field lies in another place of the message than Kubernetes has it.
TEST(JsonConversion, FillsTheFieldsOfTheMessages) {
  core_v1::Pod pod;
  ASSERT_TRUE(JsonToMessage(R"({"metadata":{"name":"a"},"spec":{"volumes":[
      {"name":"v","secret":{"secretName":"s"}}]}})",
                            &pod)
                  .ok());
  EXPECT_EQ(pod.metadata().name(), "a");
  EXPECT_EQ(pod.spec().volumes(0).volume_source().secret().secret_name(), "s");
  coordination_v1::Lease lease;
  ASSERT_TRUE(
      JsonToMessage(R"({"spec":{"renewTime":"1970-01-01T00:00:02.000003Z"}})", &lease).ok());
  EXPECT_EQ(lease.spec().renew_time().seconds(), 2);
  EXPECT_EQ(lease.spec().renew_time().nanos(), 3000);
}

TEST(JsonConversion, RefusesWrongTypesWithoutRepeatingThem) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"Pod", R"({"metadata":{"name":7}})"},
      {"Pod", R"({"metadata":[]})"},
      {"Pod", R"({"metadata":{"labels":{"hush":7}}})"},
      {"Pod", R"({"metadata":{"creationTimestamp":"hush"}})"},
      {"Pod", R"({"metadata":{"creationTimestamp":"infinite-future"}})"},
      {"Pod", R"({"spec":{"containers":{}}})"},
      {"Pod", R"({"spec":{"priority":2147483648}})"},
      {"Pod", R"({"spec":{"priority":1.5}})"},
      {"Pod", R"({"spec":{"hostNetwork":"hush"}})"},
      {"Secret", R"({"data":{"k":"hush!"}})"},
      {"Node", R"({"status":{"capacity":{"cpu":[]}}})"},
      {"Pod", R"([])"},
      {"Pod", R"({"spec":)"},
      {"Pod", ""},
  };
  for (const auto& [kind, json] : cases) {
    const auto message = BuiltinConverter().ToProtobuf("v1", kind, json);
    ASSERT_FALSE(message.ok()) << json;
    EXPECT_EQ(message.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status::Reason(message.status()), kObjectMalformed);
    EXPECT_EQ(std::string(message.status().message()).find("hush"), std::string::npos);
  }
  EXPECT_FALSE(BuiltinConverter().ToJson("v1", "Pod", "\xff").ok());
  EXPECT_FALSE(BuiltinConverter().Knows("v1", "Gadget"));
  EXPECT_FALSE(BuiltinConverter().ToProtobuf("v1", "Gadget", "{}").ok());
}

}  // namespace
}  // namespace capstan::kube
