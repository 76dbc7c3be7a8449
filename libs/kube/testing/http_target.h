// The path and query of a request.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_HTTP_TARGET_H_
#define CAPSTAN_LIBS_KUBE_TESTING_HTTP_TARGET_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::kube::testing {

struct HttpTarget {
  // Unescaped, without empty ones.
  std::vector<std::string> segments;
  // Unescaped; a name that comes twice has its first value.
  std::map<std::string, std::string> query;

  // "" if it is not there.
  std::string Parameter(absl::string_view name) const;
  bool Has(absl::string_view name) const { return query.count(std::string(name)) > 0; }
  // As strconv.ParseBool; false for anything else.
  bool Flag(absl::string_view name) const;
};

// Absent if an escape is wrong.
absl::optional<HttpTarget> ParseTarget(absl::string_view target);

// For a query: escapes all but what is unreserved.
std::string EscapeQuery(absl::string_view text);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_HTTP_TARGET_H_
