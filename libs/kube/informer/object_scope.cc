#include "libs/kube/informer/object_scope.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace capstan::kube {
namespace {

std::string Escape(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' ||
        c == '~') {
      escaped += c;
    } else {
      absl::StrAppend(&escaped, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return escaped;
}

class Query {
 public:
  explicit Query(const ObjectScope& scope) : target_(CollectionPath(scope.type, scope.ns)) {
    AddIfAny("labelSelector", scope.label_selector);
    AddIfAny("fieldSelector", scope.field_selector);
  }

  void Add(absl::string_view name, absl::string_view value) {
    absl::StrAppend(&target_, separator_, name, "=", Escape(value));
    separator_ = "&";
  }
  void AddIfAny(absl::string_view name, absl::string_view value) {
    if (!value.empty()) Add(name, value);
  }
  const std::string& target() const { return target_; }

 private:
  std::string target_;
  const char* separator_ = "?";
};

}  // namespace

std::string ToString(const ObjectScope& scope) {
  std::string text = absl::StrCat(
      scope.type.plural, scope.type.group.empty() ? "" : ".", scope.type.group,
      scope.ns.empty() || !scope.type.namespaced ? "" : absl::StrCat(" in ", scope.ns));
  if (!scope.label_selector.empty()) {
    absl::StrAppend(&text, " with labels ", scope.label_selector);
  }
  if (!scope.field_selector.empty()) {
    absl::StrAppend(&text, " with fields ", scope.field_selector);
  }
  return text;
}

std::string ListTarget(const ObjectScope& scope, const ListPageRequest& request) {
  Query query(scope);
  if (request.limit > 0) query.Add("limit", absl::StrCat(request.limit));
  query.AddIfAny("continue", request.continue_token);
  return query.target();
}

std::string WatchTarget(const ObjectScope& scope, const WatchRequest& request) {
  Query query(scope);
  query.Add("watch", "true");
  query.Add("allowWatchBookmarks", "true");
  const int64_t seconds = std::max<int64_t>(1, absl::ToInt64Seconds(request.timeout));
  query.Add("timeoutSeconds", absl::StrCat(seconds));
  if (request.initial_events) {
    query.Add("sendInitialEvents", "true");
    query.Add("resourceVersionMatch", "NotOlderThan");
  }
  query.AddIfAny("resourceVersion", request.resource_version);
  return query.target();
}

const char* MediaType(Encoding encoding) {
  return encoding == Encoding::kJson ? "application/json" : "application/vnd.kubernetes.protobuf";
}

}  // namespace capstan::kube
