#include "libs/kube/testing/list_query.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {
namespace {

ApiOr<absl::optional<int64_t>> Number(const HttpTarget& target, absl::string_view name) {
  const std::string text = target.Parameter(name);
  if (text.empty()) return absl::optional<int64_t>();
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return BadRequest(absl::StrCat("strconv.ParseInt: parsing \"", text, "\": invalid syntax"));
  }
  return absl::optional<int64_t>(value);
}

}  // namespace

ApiOr<ListQuery> ParseListQuery(const HttpTarget& target) {
  ListQuery query;
  CAPSTAN_API_ASSIGN_OR_RETURN(const absl::optional<int64_t> limit, Number(target, "limit"));
  query.limit = limit.value_or(0);
  query.continue_token = target.Parameter("continue");
  query.watch = target.Flag("watch");
  query.bookmarks = target.Flag("allowWatchBookmarks");
  CAPSTAN_API_ASSIGN_OR_RETURN(query.timeout_seconds, Number(target, "timeoutSeconds"));
  if (target.Has("sendInitialEvents")) {
    query.send_initial_events = target.Flag("sendInitialEvents");
  }
  const std::string revision = target.Parameter("resourceVersion");
  if (!revision.empty()) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(revision, &value) || value < 0) {
      return BadRequest(absl::StrCat("invalid resource version: Invalid value: \"", revision,
                                     "\": strconv.ParseUint: parsing \"", revision,
                                     "\": invalid syntax"));
    }
    query.revision = value;
  }
  std::vector<Cause> causes;
  const std::string match = target.Parameter("resourceVersionMatch");
  constexpr char kMatch[] = "resourceVersionMatch";
  if (match == "Exact") {
    query.match = RevisionMatch::kExact;
  } else if (match == "NotOlderThan") {
    query.match = RevisionMatch::kNotOlderThan;
  } else if (!match.empty()) {
    causes.push_back({"FieldValueNotSupported",
                      absl::StrCat("Unsupported value: ", WriteJson(match),
                                   ": supported values: \"Exact\", \"NotOlderThan\", \"\""),
                      kMatch});
  }
  if (query.watch) {
    if (query.send_initial_events.has_value() && match.empty()) {
      causes.push_back(ForbiddenField(
          kMatch, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    }
    if (!match.empty()) {
      if (!query.send_initial_events.has_value()) {
        causes.push_back(ForbiddenField(
            kMatch,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
      } else if (match != "NotOlderThan") {
        causes.push_back(ForbiddenField(
            kMatch, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
      }
    }
  } else {
    if (query.send_initial_events.has_value()) {
      causes.push_back(
          ForbiddenField("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if (!match.empty() && revision.empty()) {
      causes.push_back(ForbiddenField(
          kMatch, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if (!match.empty() && !query.continue_token.empty()) {
      causes.push_back(
          ForbiddenField(kMatch, "resourceVersionMatch is forbidden when continue is provided"));
    }
    if (query.match == RevisionMatch::kExact && revision == "0") {
      causes.push_back(ForbiddenField(
          kMatch, "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""));
    }
  }
  if (!causes.empty()) return Invalid("ListOptions", "meta.k8s.io", "", causes);
  if (!query.watch && !query.continue_token.empty() && !revision.empty() && revision != "0") {
    return BadRequest("specifying resource version is not allowed when using continue");
  }
  return query;
}

std::string WriteContinueToken(const ContinueToken& token) {
  return absl::WebSafeBase64Escape(
      WriteJson({{"v", "meta.k8s.io/v1"}, {"rv", token.revision}, {"start", token.start + '\0'}}));
}

ApiOr<ContinueToken> ReadContinueToken(const std::string& text) {
  std::string plain;
  if (!absl::WebSafeBase64Unescape(text, &plain)) {
    return BadRequest("continue key is not valid: illegal base64 data");
  }
  const Json json = ParseJson(plain);
  const Json& revision = Member(json, "rv");
  std::string start = Text(Member(json, "start"));
  if (Text(Member(json, "v")) != "meta.k8s.io/v1" || !revision.is_number_integer() ||
      start.empty()) {
    return BadRequest("continue key is not valid: server does not recognize this encoded version");
  }
  if (start.back() == '\0') start.pop_back();
  return ContinueToken{revision.get<int64_t>(), std::move(start)};
}

}  // namespace capstan::kube::testing
