#include "libs/mig/declared_gpus.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::mig {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Errors(const std::vector<std::pair<int, std::string>>& gpus) {
  google::protobuf::RepeatedPtrField<capstan::type::v1::MigGpu> list;
  for (const auto& [index, model] : gpus) {
    list.Add()->set_index(index);
    list.rbegin()->set_model(model);
  }
  status::FieldErrors errors;
  CheckDeclaredGpus("mig_gpus", list, &errors);
  std::vector<std::string> texts;
  for (const auto& violation : status::GetFieldViolations(errors.ToStatus())) {
    texts.push_back(violation.field + " " + violation.description);
  }
  return texts;
}

TEST(DeclaredGpusTest, TakesGpusOfKnownModels) {
  EXPECT_THAT(Errors({}), IsEmpty());
  EXPECT_THAT(Errors({{7, "H100-80GB"}, {0, "A30-24GB"}}), IsEmpty());
}

TEST(DeclaredGpusTest, NamesWhatIsWrong) {
  EXPECT_THAT(
      Errors({{0, "H100"}, {0, "H100-80GB"}, {-1, "H100-80GB"}, {64, ""}}),
      ElementsAre(HasSubstr("mig_gpus[0].model accelerator model: found \"H100\"; expected one of"),
                  HasSubstr("mig_gpus[1].index is 0; expected a GPU's number from 0 to 63"),
                  HasSubstr("mig_gpus[2].index is -1"), HasSubstr("mig_gpus[3].index is 64"),
                  HasSubstr("mig_gpus[3].model")));
}

}  // namespace
}  // namespace capstan::mig
