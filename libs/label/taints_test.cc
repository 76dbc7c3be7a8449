#include "libs/label/taints.h"

#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/repeated_field.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::label {
namespace {

std::vector<std::string> Wrong(const std::vector<std::pair<std::string, std::string>>& taints) {
  google::protobuf::RepeatedPtrField<capstan::type::v1::Taint> list;
  for (const auto& [key, value] : taints) {
    auto* const taint = list.Add();
    taint->set_key(key);
    taint->set_value(value);
  }
  status::FieldErrors errors;
  CheckTaints("taints", list, &errors);
  std::vector<std::string> fields;
  for (const auto& violation : errors.violations()) fields.push_back(violation.field);
  return fields;
}

TEST(TaintsTest, TakesWhatKubernetesTakes) {
  EXPECT_TRUE(Wrong({}).empty());
  EXPECT_TRUE(
      Wrong({{"capstan.dev/team", "vision"}, {"old", ""}, {"A_b.c-D", std::string(63, 'v')}})
          .empty());
}

TEST(TaintsTest, NamesWhatIsWrong) {
  EXPECT_EQ(Wrong({{"", ""}, {"/order", ""}, {"Up.dev/a", ""}, {"a..b/c", ""}, {"a/b/c", ""}}),
            (std::vector<std::string>{"taints[0].key", "taints[1].key", "taints[2].key",
                                      "taints[3].key", "taints[4].key"}));
  EXPECT_EQ(Wrong({{"a", "b c"}, {"a", "-"}}),
            (std::vector<std::string>{"taints[0].value", "taints[1].key", "taints[1].value"}));
  EXPECT_EQ(Wrong(std::vector<std::pair<std::string, std::string>>(33, {"a", ""})),
            (std::vector<std::string>{"taints"}));
}

}  // namespace
}  // namespace capstan::label
