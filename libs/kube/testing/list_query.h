// The rules by which lists and watches choose a revision.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_LIST_QUERY_H_
#define CAPSTAN_LIBS_KUBE_TESTING_LIST_QUERY_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/http_target.h"

namespace capstan::kube::testing {

enum class RevisionMatch { kUnset, kExact, kNotOlderThan };

// metav1.ListOptions.
struct ListQuery {
  int64_t limit = 0;
  std::string continue_token;
  // Absent: the parameter is absent or empty.
  absl::optional<int64_t> revision;
  RevisionMatch match = RevisionMatch::kUnset;
  bool watch = false;
  bool bookmarks = false;
  absl::optional<bool> send_initial_events;
  absl::optional<int64_t> timeout_seconds;
};

// Refuses what ValidateListOptions of k8s.io/apimachinery/pkg/apis/meta/internalversion/validation
// and ValidateContinue refuse.
ApiOr<ListQuery> ParseListQuery(const HttpTarget& target);

struct ContinueToken {
  // Negative: the newest state, after a token has expired.
  int64_t revision = 0;
  // `namespace/name` of the last object that was listed, or `name`.
  std::string start;
};

std::string WriteContinueToken(const ContinueToken& token);
// 400 for what this server has not written.
ApiOr<ContinueToken> ReadContinueToken(const std::string& text);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_LIST_QUERY_H_
