// The code of docs/kube.md that needs an API server: see document_test.sh.
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/client/blocking_resource.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/events/event_core.h"
#include "libs/kube/events/event_recorder.h"
#include "libs/kube/leader_election/leader_elector.h"
#include "libs/kube/leader_election/lease_core.h"
#include "libs/kube/objects/dynamic_object.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/random/random.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

using testing::Json;

// Serves gadgets, of which there is one, `a`.
void ServeGadgets(testing::FakeApiState& state) {
  const Json definition = Json::parse(R"({"metadata":{"name":"gadgets.example.org"},"spec":{
      "group":"example.org","scope":"Namespaced",
      "names":{"plural":"gadgets","kind":"Gadget"},
      "versions":[{"name":"v1","served":true,"storage":true,
                   "subresources":{"scale":{"specReplicasPath":".spec.size",
                                            "statusReplicasPath":".status.size"}}}]}})");
  ASSERT_TRUE(
      state
          .Create(*state.FindType("apiextensions.k8s.io", "v1", "customresourcedefinitions"), "",
                  definition)
          .ok());
  ASSERT_TRUE(state
                  .Create(*state.FindType("example.org", "v1", "gadgets"), "default",
                          {{"metadata", {{"name", "a"}}}, {"spec", {{"size", 1}}}})
                  .ok());
}

TEST(ExampleCallsTest, LeadsTellsAndScales) {
  const SystemClock clock;
  testing::FakeApiServerOptions server_options;
  server_options.converter = &BuiltinConverter();
  testing::FakeApiServer server(server_options, &clock);
  server.Use(ServeGadgets);
  Connection connection(server.NewTransport(), ConnectionOptions(), &clock);
  Random random(1);
  absl::Notification leads, lost;
  const std::string host = "host";
  core_v1::Pod pod;
  pod.mutable_metadata()->set_namespace_("default");
  pod.mutable_metadata()->set_name("car");
  {
    // [doc]
    LeaderElectionOptions election;
    election.ns = "default";
    election.name = "parts";
    election.identity = MakeIdentity(host, &random);
    election.release_on_stop = true;
    LeaderCallbacks callbacks;
    callbacks.on_started = [&](const LeaseTerm&) { leads.Notify(); };
    callbacks.on_stopped = [&](absl::string_view /*why*/) { lost.Notify(); };
    const auto elector = LeaderElector::Make(election, callbacks,
                                             {connection.client(), random.Next(), absl::nullopt});
    if (!elector.ok()) FAIL() << elector.status();
    (*elector)->Start();
    leads.WaitForNotification();
    // [/doc]
    EXPECT_TRUE((*elector)->IsLeader());
    // [doc]
    EventOptions told;
    told.reporting_controller = "example.org/parts";
    told.reporting_instance = host;
    EventRecorder events(told, {connection.client(), random.Next(), absl::nullopt});

    EventRecord painted;
    painted.regarding = ReferenceTo(kPods, pod);
    painted.reason = "Painted";
    painted.action = "Paint";
    painted.note = "it is blue now";
    events.Record(painted);
    // [/doc]
    const auto more_of = [&]() -> absl::Status {
      // [doc]
      const ResourceType type = {"example.org", "v1", "Gadget", "gadgets", /*namespaced=*/true};
      const BlockingResource<DynamicObject> gadgets(
          Resource<DynamicObject>(connection.client(), type));
      const auto scale = gadgets.GetScale("default", "a");
      if (!scale.ok()) return scale.status();
      autoscaling_v1::Scale wanted = **scale;
      wanted.mutable_spec()->set_replicas(3);
      return gadgets.UpdateScale(wanted).status();
      // [/doc]
    };
    EXPECT_EQ(more_of(), absl::OkStatus());
    // [doc]
    (*elector)->Stop();
    events.Stop(/*flush=*/absl::Seconds(60));
    // [/doc]
    EXPECT_TRUE(lost.HasBeenNotified());
    EXPECT_EQ(events.stats().written, 1);
  }
  server.Use([](testing::FakeApiState& state) {
    EXPECT_EQ((*state.Get(*state.FindType("example.org", "v1", "gadgets"), "default",
                          "a"))["spec"]["size"],
              3);
  });
}

}  // namespace
}  // namespace capstan::kube
