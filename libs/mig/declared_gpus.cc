#include "libs/mig/declared_gpus.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "libs/mig/profiles.h"

namespace capstan::mig {

void CheckDeclaredGpus(absl::string_view field,
                       const google::protobuf::RepeatedPtrField<capstan::type::v1::MigGpu>& gpus,
                       status::FieldErrors* errors) {
  std::set<int> seen;
  for (int i = 0; i < gpus.size(); ++i) {
    const int index = gpus[i].index();
    if (index < 0 || index >= kMaxGpus || !seen.insert(index).second) {
      errors->Add(absl::StrCat(field, "[", i, "].index"),
                  absl::StrCat("is ", index, "; expected a GPU's number from 0 to ", kMaxGpus - 1,
                               ", each once"));
    }
    if (const auto model = FindDeviceModel(gpus[i].model()); !model.ok()) {
      errors->Add(absl::StrCat(field, "[", i, "].model"), model.status().message());
    }
  }
}

}  // namespace capstan::mig
