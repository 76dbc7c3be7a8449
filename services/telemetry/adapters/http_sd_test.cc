#include "services/telemetry/adapters/http_sd.h"

#include "gtest/gtest.h"

namespace capstan::telemetry {
namespace {

void Add(const char* path, const char* instance, const char* address,
         core::ScrapeTargetList* list) {
  core::ScrapeTarget* target = list->add_targets();
  target->set_identity_path(path);
  target->set_instance(instance);
  target->set_metrics_address(address);
}

TEST(HttpSdTest, NothingIsAnEmptyList) { EXPECT_EQ(RenderHttpSd(core::ScrapeTargetList()), "[]"); }

TEST(HttpSdTest, EveryKindOfProcessHasItsLabels) {
  core::ScrapeTargetList list;
  Add("/executor/east", "", "10.0.0.1:9105", &list);
  Add("/node/east/h1", "", "[fd00::7]:9106", &list);
  Add("/svc/scheduler", "10.0.0.1:7101", "10.0.0.1:9101", &list);
  EXPECT_EQ(RenderHttpSd(list),
            R"([{"labels":{"__meta_capstan_cluster":"east","__meta_capstan_service":"executor"},)"
            R"("targets":["10.0.0.1:9105"]},)"
            R"({"labels":{"__meta_capstan_cluster":"east","__meta_capstan_node":"h1",)"
            R"("__meta_capstan_service":"node_agent"},"targets":["[fd00::7]:9106"]},)"
            R"({"labels":{"__meta_capstan_replica":"10.0.0.1:7101",)"
            R"("__meta_capstan_service":"scheduler"},"targets":["10.0.0.1:9101"]}])");
}

TEST(HttpSdTest, WhatIsNoIdentityIsLeftOutAndTextIsEscaped) {
  core::ScrapeTargetList list;
  Add("nonsense", "", "10.0.0.1:1", &list);
  Add("/svc/scheduler", "a\"\\b\xff", "10.0.0.1:2", &list);
  const std::string text = RenderHttpSd(list);
  EXPECT_EQ(text.find("10.0.0.1:1"), std::string::npos);
  EXPECT_NE(text.find(R"("a\"\\b\ufffd")"), std::string::npos) << text;
}

}  // namespace
}  // namespace capstan::telemetry
