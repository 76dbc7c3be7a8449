#include "libs/label/taints.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/label/label.h"

namespace capstan::label {

using capstan::type::v1::Taint;

void CheckTaints(absl::string_view field, const google::protobuf::RepeatedPtrField<Taint>& taints,
                 status::FieldErrors* errors) {
  if (taints.size() > kMaxTaints) {
    errors->Add(field,
                absl::StrCat("has ", taints.size(), " entries; expected at most ", kMaxTaints));
    return;
  }
  std::set<std::string> keys;
  for (int i = 0; i < taints.size(); ++i) {
    const std::string one = absl::StrCat(field, "[", i, "]");
    const Taint& taint = taints[i];
    if (!IsKey(taint.key())) {
      errors->Add(one + ".key", absl::StrCat("is `", taint.key(), "`; expected ", kKeyRule));
    } else if (!keys.insert(taint.key()).second) {
      errors->Add(one + ".key", absl::StrCat("`", taint.key(), "` is the key of an earlier taint"));
    }
    if (!IsValue(taint.value())) {
      errors->Add(one + ".value", absl::StrCat("is `", taint.value(), "`; expected ", kValueRule));
    }
  }
}

}  // namespace capstan::label
