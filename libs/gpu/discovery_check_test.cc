#include "libs/gpu/discovery_check.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace capstan::gpu {
namespace {

TEST(DiscoveryCheckTest, NothingThatIsFoundMayBeDeclared) {
  google::protobuf::Map<std::string, int64_t> accelerators;
  accelerators["slot"] = 2;
  status::FieldErrors none;
  CheckBesideDiscovery("node_agent.", accelerators, 0, &none);
  EXPECT_TRUE(none.ok());
  accelerators["nvidia.com/h200-141gb"] = 8;
  accelerators["nvidia.com/gpu"] = 8;
  status::FieldErrors errors;
  CheckBesideDiscovery("node_agent.", accelerators, 1, &errors);
  std::vector<std::string> fields;
  for (const auto& violation : errors.violations()) fields.push_back(violation.field);
  EXPECT_EQ(fields, (std::vector<std::string>{"node_agent.accelerators[nvidia.com/gpu]",
                                              "node_agent.accelerators[nvidia.com/h200-141gb]",
                                              "node_agent.mig_gpus"}));
}

}  // namespace
}  // namespace capstan::gpu
