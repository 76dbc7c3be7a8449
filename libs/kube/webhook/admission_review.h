// admission.k8s.io/v1 AdmissionReview: what an API server asks a webhook, and what it is answered.
#ifndef CAPSTAN_LIBS_KUBE_WEBHOOK_ADMISSION_REVIEW_H_
#define CAPSTAN_LIBS_KUBE_WEBHOOK_ADMISSION_REVIEW_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::kube {

struct GroupVersionKind {
  std::string group;
  std::string version;
  std::string kind;

  friend bool operator==(const GroupVersionKind&, const GroupVersionKind&) = default;
};

struct GroupVersionResource {
  std::string group;
  std::string version;
  std::string resource;

  friend bool operator==(const GroupVersionResource&, const GroupVersionResource&) = default;
};

enum class AdmissionOperation { kCreate, kUpdate, kDelete, kConnect };

// Who has sent the request to the API server.
struct AdmissionUser {
  std::string username;
  std::string uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
};

struct AdmissionRequest {
  std::string uid;
  // Of `object`, as the webhook's rules matched it; the request_ ones are as the client sent it.
  GroupVersionKind kind;
  GroupVersionResource resource;
  std::string subresource;
  GroupVersionKind request_kind;
  GroupVersionResource request_resource;
  std::string request_subresource;
  // Empty where the server is to make it of `generateName`.
  std::string name;
  // Empty for what has none.
  std::string ns;
  AdmissionOperation operation = AdmissionOperation::kCreate;
  AdmissionUser user;
  // The text of the JSON objects as the server wrote it, byte for byte, so that nothing is lost on
  // a number or a field of a newer API. "" where there is none. Brackets match and all is UTF-8; of
  // what is inside no more is known.
  std::string object;
  std::string old_object;
  std::string options;
  bool dry_run = false;
};

struct AdmissionResponse {
  bool allowed = false;
  // Of a refusal: HTTP status, 403 unless said; metav1.Status.reason; a sentence for who asked.
  int code = 0;
  std::string reason;
  std::string message;
  // A JSON patch (RFC 6902), the text of an array; "" changes nothing. Only with `allowed`.
  std::string patch;
  // Shown to who asked: a server may cut one at 256 characters and drops what is beyond 4,096.
  std::vector<std::string> warnings;
  // The server puts the webhook's name before each key.
  std::map<std::string, std::string> audit_annotations;
};

// Takes fields in any order and skips those that it does not know. INVALID_ARGUMENT with reason
// ADMISSION_REVIEW_MALFORMED if it is no AdmissionReview of v1 with a request and its uid, naming
// the field and repeating nothing of the text. Linear in the bytes.
absl::StatusOr<AdmissionRequest> ParseAdmissionReview(absl::string_view body);

// The whole answer to the request with `uid`. What is no UTF-8 is replaced.
std::string WriteAdmissionReview(absl::string_view uid, const AdmissionResponse& response);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_WEBHOOK_ADMISSION_REVIEW_H_
