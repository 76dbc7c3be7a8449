// Calls of the Kubernetes API as HTTP requests, made by pure functions.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_REQUEST_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_REQUEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/client/retry.h"
#include "libs/kube/objects/encoding.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

struct ApiRequest {
  std::string method = "GET";
  std::string target;
  std::vector<HttpHeader> headers;
  std::string body;
  Repeat repeat = Repeat::kHarmful;
  // With all its attempts and the waits between them; absent: as the client's options say.
  absl::optional<absl::Duration> timeout;
};

// `?a=b&c=d`, escaped, in the order of the calls; nothing for an empty value.
class Query {
 public:
  void Add(absl::string_view name, absl::string_view value);
  // An empty value too: a command's argument may be one.
  void AddAny(absl::string_view name, absl::string_view value);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Selectors as the server writes them: `app=web,tier!=db`, `spec.nodeName=n`.
struct ListOptions {
  std::string label_selector;
  std::string field_selector;
  // 0: all at once.
  int64_t limit = 0;
  std::string continue_token;
  // Empty: the newest state. With `0`: any, at the server's choice.
  std::string resource_version;
  // `NotOlderThan`, `Exact`; only with a resource version.
  std::string resource_version_match;
};

enum class FieldValidation { kStrict, kWarn, kIgnore };

struct WriteOptions {
  // Nothing is stored; the answer is what would be.
  bool dry_run = false;
  // What a field that the server does not know does. Of JSON alone: in protobuf they have no names.
  FieldValidation field_validation = FieldValidation::kStrict;
  // Of managedFields; empty: made from the user agent.
  std::string field_manager;
};

enum class PatchType {
  // RFC 6902.
  kJson,
  // RFC 7386.
  kMerge,
  // The server's own for built-in types.
  kStrategicMerge,
  // Server-side apply: needs a field manager.
  kApply,
};

struct PatchOptions : WriteOptions {
  // Of kApply: takes fields from other managers.
  bool force = false;
  // The patch itself has what makes it harmless to send twice, such as a `test` or a
  // resourceVersion. An apply is so always.
  bool repeatable = false;
};

enum class Propagation { kDefault, kOrphan, kBackground, kForeground };

struct DeleteOptions {
  // What it must be; without either, whatever has the name by then is deleted, and the call is made
  // once.
  std::string uid{};
  std::string resource_version{};
  // Of Pods; absent: as the object says. 0: at once, without waiting for the kubelet.
  absl::optional<absl::Duration> grace_period{};
  Propagation propagation = Propagation::kDefault;
  bool dry_run = false;
};

struct LogOptions {
  // Empty: the only one.
  std::string container;
  bool follow = false;
  // Of the container's instance before this one.
  bool previous = false;
  // RFC 3339 before each line.
  bool timestamps = false;
  absl::optional<int64_t> tail_lines;
  // In whole seconds, at least 1.
  absl::optional<absl::Duration> since;
  absl::optional<int64_t> limit_bytes;
};

ApiRequest GetRequest(const ResourceType& type, absl::string_view ns, absl::string_view name,
                      Encoding encoding, absl::string_view subresource = "");
ApiRequest ListRequest(const ResourceType& type, absl::string_view ns, const ListOptions& options,
                       Encoding encoding);
// `body` is whole, in `encoding`.
ApiRequest CreateRequest(const ResourceType& type, absl::string_view ns, std::string body,
                         const WriteOptions& options, Encoding encoding);
// POST to `name`'s subresource, as `binding`, `eviction` and `token` are.
ApiRequest CreateSubresourceRequest(const ResourceType& type, absl::string_view ns,
                                    absl::string_view name, absl::string_view subresource,
                                    std::string body, const WriteOptions& options,
                                    Encoding encoding);
// `conditional`: the body names the resource version that it replaces, hence repeats harmlessly.
ApiRequest UpdateRequest(const ResourceType& type, absl::string_view ns, absl::string_view name,
                         absl::string_view subresource, std::string body, bool conditional,
                         const WriteOptions& options, Encoding encoding);
// `patch` is JSON; `encoding` is that of the answer.
ApiRequest PatchRequest(const ResourceType& type, absl::string_view ns, absl::string_view name,
                        absl::string_view subresource, PatchType patch_type, std::string patch,
                        const PatchOptions& options, Encoding encoding);
ApiRequest DeleteRequest(const ResourceType& type, absl::string_view ns, absl::string_view name,
                         const DeleteOptions& options, Encoding encoding);
// Of `list`, selectors, limit and versions count.
ApiRequest DeleteCollectionRequest(const ResourceType& type, absl::string_view ns,
                                   const ListOptions& list, const DeleteOptions& options,
                                   Encoding encoding);
ApiRequest LogRequest(absl::string_view ns, absl::string_view pod, const LogOptions& options);

// The body of a DELETE, JSON: every server takes it, for custom resources too.
std::string DeleteOptionsJson(const DeleteOptions& options);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_REQUEST_H_
