// Label and field selectors of lists and watches.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_SELECTOR_H_
#define CAPSTAN_LIBS_KUBE_TESTING_SELECTOR_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {

// `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`.
class LabelSelector {
 public:
  LabelSelector() = default;

  static ApiOr<LabelSelector> Parse(absl::string_view text);
  // metav1.LabelSelector; null selects nothing, {} everything.
  static LabelSelector FromObject(const Json& selector);

  // By the object's metadata.labels.
  bool Matches(const Json& object) const;
  bool empty() const { return requirements_.empty() && !nothing_; }

 private:
  enum class Operator { kIn, kNotIn, kExists, kAbsent, kGreater, kLess };
  struct Requirement {
    std::string key;
    Operator op = Operator::kExists;
    std::set<std::string> values;
  };

  static ApiOr<Requirement> ParseOne(absl::string_view text);

  std::vector<Requirement> requirements_;
  bool nothing_ = false;
};

// `metadata.name=a,status.phase!=Running`.
class FieldSelector {
 public:
  FieldSelector() = default;

  // 400 for fields by which the type cannot be selected.
  static ApiOr<FieldSelector> Parse(const ResourceType& type, absl::string_view text);

  bool Matches(const Json& object) const;
  bool empty() const { return terms_.empty(); }

 private:
  struct Term {
    std::vector<std::string> path;
    bool equal = true;
    std::string value;
  };
  std::vector<Term> terms_;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_SELECTOR_H_
