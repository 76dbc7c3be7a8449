#include "services/scheduler/core/optional_parts.h"

#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;

JobSpec Spec(const std::string& text) {
  JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

// Of three outermost sections one is needed; of what is in the second, again one.
constexpr char kNested[] = R"pb(
  min_sections: 1
  sections { name: 'a' }
  sections { name: 'b' min_sections: 1 }
  sections { name: 'c' }
  sections { name: 'a1' parent: 'a' }
  sections { name: 'b1' parent: 'b' }
  sections { name: 'b2' parent: 'b' }
  task_groups { name: 'free' replicas: 1 }
  task_groups { name: 'b2' section: 'b2' replicas: 4 min_replicas: 2 }
  task_groups { name: 'a1' section: 'a1' replicas: 2 }
  task_groups { name: 'b1' section: 'b1' replicas: 3 }
  task_groups { name: 'b' section: 'b' replicas: 1 }
  task_groups { name: 'c' section: 'c' replicas: 5 }
)pb";

TEST(OptionalPartsTest, AreTheSectionsBeyondTheLeastOfTheirParents) {
  const JobSpec spec = Spec(kNested);
  EXPECT_EQ(OptionalParts(spec),
            (std::vector<OptionalPart>{{1, -1, {3, 4}}, {2, -1, {5}}, {5, 0, {1}}}));
  EXPECT_EQ(MinSizes(spec), (std::vector<int>{1, 0, 2, 0, 0, 0}));
  EXPECT_FALSE(IsOptional(spec, 0));
  EXPECT_TRUE(IsOptional(spec, 1));
  EXPECT_FALSE(IsOptional(spec, 2));
}

TEST(OptionalPartsTest, AreNoneWhereAllSectionsAreNeeded) {
  JobSpec spec = Spec(kNested);
  spec.set_min_sections(3);
  spec.mutable_sections(1)->set_min_sections(0);
  EXPECT_TRUE(OptionalParts(spec).empty());
  EXPECT_EQ(MinSizes(spec), (std::vector<int>{1, 2, 2, 3, 1, 5}));
}

TEST(OptionalPartsTest, APartIsWholeOrNotThereAndLiesInOneThatIsThere) {
  const JobSpec spec = Spec(kNested);
  EXPECT_TRUE(HasWholeParts(spec, {1, 0, 2, 0, 0, 0}));
  EXPECT_TRUE(HasWholeParts(spec, {1, 0, 2, 0, 0, 5}));
  EXPECT_TRUE(HasWholeParts(spec, {1, 0, 2, 3, 1, 0}));
  EXPECT_TRUE(HasWholeParts(spec, {1, 3, 2, 3, 1, 5}));
  EXPECT_FALSE(HasWholeParts(spec, {0, 0, 2, 0, 0, 0})) << "a group that is needed";
  EXPECT_FALSE(HasWholeParts(spec, {1, 0, 1, 0, 0, 0})) << "a section that is needed";
  EXPECT_FALSE(HasWholeParts(spec, {1, 0, 2, 0, 1, 0})) << "half a part";
  EXPECT_FALSE(HasWholeParts(spec, {1, 0, 2, 0, 0, 4})) << "less than its group needs";
  EXPECT_FALSE(HasWholeParts(spec, {1, 2, 2, 0, 0, 0})) << "a part of none";
}

}  // namespace
}  // namespace capstan::scheduler
