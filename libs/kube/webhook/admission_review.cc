#include "libs/kube/webhook/admission_review.h"

#include <cstdint>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "simdjson.h"

namespace capstan::kube {
namespace {

namespace od = simdjson::ondemand;

constexpr char kApiVersion[] = "admission.k8s.io/v1";
constexpr char kKind[] = "AdmissionReview";

absl::Status Malformed(absl::string_view field, absl::string_view expected) {
  return status::Error(absl::StatusCode::kInvalidArgument, "ADMISSION_REVIEW_MALFORMED",
                       absl::StrCat(field, ": expected ", expected),
                       {{"field", std::string(field)}});
}

absl::StatusOr<std::string> Text(absl::string_view field, od::value value) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) return Malformed(field, "a string");
  return std::string(text);
}

// Calls `take(key, value)` for each field of an object; null is as if it were not there.
template <typename Take>
absl::Status ForEachField(absl::string_view name, od::value value, Take take) {
  od::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) return Malformed(name, "an object");
  for (auto field : object) {
    std::string_view key;
    od::value inner;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS ||
        field.value().get(inner) != simdjson::SUCCESS) {
      return Malformed(name, "a JSON object");
    }
    od::json_type type;
    if (inner.type().get(type) != simdjson::SUCCESS) return Malformed(name, "a JSON object");
    if (type == od::json_type::null) {
      // Anything that begins as null does counts as null until it is looked at.
      bool is_null = false;
      if (inner.is_null().get(is_null) != simdjson::SUCCESS || !is_null) {
        return Malformed(name, "a JSON object");
      }
      continue;
    }
    // The key lies in a buffer that the next string is written behind, so it stays.
    CAPSTAN_RETURN_IF_ERROR(take(absl::string_view(key.data(), key.size()), inner));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Texts(absl::string_view field, od::value value) {
  od::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) {
    return Malformed(field, "an array of strings");
  }
  std::vector<std::string> texts;
  for (auto element : array) {
    od::value inner;
    if (element.get(inner) != simdjson::SUCCESS) return Malformed(field, "an array of strings");
    CAPSTAN_ASSIGN_OR_RETURN(std::string text, Text(field, inner));
    texts.push_back(std::move(text));
  }
  return texts;
}

absl::StatusOr<std::string> RawObject(absl::string_view field, od::value value) {
  od::object object;
  std::string_view text;
  if (value.get_object().get(object) != simdjson::SUCCESS ||
      object.raw_json().get(text) != simdjson::SUCCESS) {
    return Malformed(field, "an object");
  }
  while (!text.empty() && text.back() != '}') text.remove_suffix(1);
  return std::string(text);
}

absl::Status ReadKind(absl::string_view name, od::value value, GroupVersionKind* kind) {
  return ForEachField(name, value, [&](absl::string_view key, od::value inner) -> absl::Status {
    std::string* const to = key == "group"     ? &kind->group
                            : key == "version" ? &kind->version
                            : key == "kind"    ? &kind->kind
                                               : nullptr;
    if (to == nullptr) return absl::OkStatus();
    CAPSTAN_ASSIGN_OR_RETURN(*to, Text(name, inner));
    return absl::OkStatus();
  });
}

absl::Status ReadResource(absl::string_view name, od::value value, GroupVersionResource* resource) {
  return ForEachField(name, value, [&](absl::string_view key, od::value inner) -> absl::Status {
    std::string* const to = key == "group"      ? &resource->group
                            : key == "version"  ? &resource->version
                            : key == "resource" ? &resource->resource
                                                : nullptr;
    if (to == nullptr) return absl::OkStatus();
    CAPSTAN_ASSIGN_OR_RETURN(*to, Text(name, inner));
    return absl::OkStatus();
  });
}

absl::Status ReadUser(od::value value, AdmissionUser* user) {
  const auto read = [&](absl::string_view key, od::value inner) -> absl::Status {
    if (key == "username") {
      CAPSTAN_ASSIGN_OR_RETURN(user->username, Text("request.userInfo.username", inner));
    } else if (key == "uid") {
      CAPSTAN_ASSIGN_OR_RETURN(user->uid, Text("request.userInfo.uid", inner));
    } else if (key == "groups") {
      CAPSTAN_ASSIGN_OR_RETURN(user->groups, Texts("request.userInfo.groups", inner));
    } else if (key == "extra") {
      return ForEachField("request.userInfo.extra", inner,
                          [&](absl::string_view name, od::value values) -> absl::Status {
                            const std::string owned(name);
                            CAPSTAN_ASSIGN_OR_RETURN(user->extra[owned],
                                                     Texts("request.userInfo.extra", values));
                            return absl::OkStatus();
                          });
    }
    return absl::OkStatus();
  };
  return ForEachField("request.userInfo", value, read);
}

absl::StatusOr<AdmissionOperation> ReadOperation(od::value value) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string word, Text("request.operation", value));
  if (word == "CREATE") return AdmissionOperation::kCreate;
  if (word == "UPDATE") return AdmissionOperation::kUpdate;
  if (word == "DELETE") return AdmissionOperation::kDelete;
  if (word == "CONNECT") return AdmissionOperation::kConnect;
  return Malformed("request.operation", "CREATE, UPDATE, DELETE or CONNECT");
}

absl::Status ReadRequest(od::value value, AdmissionRequest* request, bool* has_operation) {
  const auto read = [&](absl::string_view key, od::value inner) -> absl::Status {
    if (key == "uid") {
      CAPSTAN_ASSIGN_OR_RETURN(request->uid, Text("request.uid", inner));
    } else if (key == "kind") {
      return ReadKind("request.kind", inner, &request->kind);
    } else if (key == "resource") {
      return ReadResource("request.resource", inner, &request->resource);
    } else if (key == "subResource") {
      CAPSTAN_ASSIGN_OR_RETURN(request->subresource, Text("request.subResource", inner));
    } else if (key == "requestKind") {
      return ReadKind("request.requestKind", inner, &request->request_kind);
    } else if (key == "requestResource") {
      return ReadResource("request.requestResource", inner, &request->request_resource);
    } else if (key == "requestSubResource") {
      CAPSTAN_ASSIGN_OR_RETURN(request->request_subresource,
                               Text("request.requestSubResource", inner));
    } else if (key == "name") {
      CAPSTAN_ASSIGN_OR_RETURN(request->name, Text("request.name", inner));
    } else if (key == "namespace") {
      CAPSTAN_ASSIGN_OR_RETURN(request->ns, Text("request.namespace", inner));
    } else if (key == "operation") {
      CAPSTAN_ASSIGN_OR_RETURN(request->operation, ReadOperation(inner));
      *has_operation = true;
    } else if (key == "userInfo") {
      return ReadUser(inner, &request->user);
    } else if (key == "object") {
      CAPSTAN_ASSIGN_OR_RETURN(request->object, RawObject("request.object", inner));
    } else if (key == "oldObject") {
      CAPSTAN_ASSIGN_OR_RETURN(request->old_object, RawObject("request.oldObject", inner));
    } else if (key == "options") {
      CAPSTAN_ASSIGN_OR_RETURN(request->options, RawObject("request.options", inner));
    } else if (key == "dryRun") {
      if (inner.get_bool().get(request->dry_run) != simdjson::SUCCESS) {
        return Malformed("request.dryRun", "true or false");
      }
    }
    return absl::OkStatus();
  };
  return ForEachField("request", value, read);
}

}  // namespace

absl::StatusOr<AdmissionRequest> ParseAdmissionReview(absl::string_view body) {
  od::parser parser;
  const simdjson::padded_string padded(body.data(), body.size());
  od::document document;
  od::value root;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_value().get(root) != simdjson::SUCCESS) {
    return Malformed("body", "a JSON object");
  }
  AdmissionRequest request;
  bool has_request = false;
  bool has_operation = false;
  std::string api_version;
  std::string kind;
  CAPSTAN_RETURN_IF_ERROR(
      ForEachField("body", root, [&](absl::string_view key, od::value inner) -> absl::Status {
        if (key == "apiVersion") {
          CAPSTAN_ASSIGN_OR_RETURN(api_version, Text("apiVersion", inner));
        } else if (key == "kind") {
          CAPSTAN_ASSIGN_OR_RETURN(kind, Text("kind", inner));
        } else if (key == "request") {
          has_request = true;
          return ReadRequest(inner, &request, &has_operation);
        }
        return absl::OkStatus();
      }));
  // There is a location as long as something is left.
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    return Malformed("body", "one JSON object and nothing after it");
  }
  if (api_version != kApiVersion) return Malformed("apiVersion", kApiVersion);
  if (kind != kKind) return Malformed("kind", kKind);
  if (!has_request) return Malformed("request", "a request");
  if (request.uid.empty()) return Malformed("request.uid", "the uid that the answer must repeat");
  if (!has_operation) {
    return Malformed("request.operation", "CREATE, UPDATE, DELETE or CONNECT");
  }
  return request;
}

std::string WriteAdmissionReview(absl::string_view uid, const AdmissionResponse& response) {
  nlohmann::json answer;
  answer["uid"] = std::string(uid);
  answer["allowed"] = response.allowed;
  if (!response.allowed || !response.message.empty()) {
    nlohmann::json& status = answer["status"];
    status["status"] = response.allowed ? "Success" : "Failure";
    status["message"] = response.message;
    if (!response.reason.empty()) status["reason"] = response.reason;
    if (!response.allowed) status["code"] = response.code == 0 ? 403 : response.code;
  }
  if (response.allowed && !response.patch.empty()) {
    answer["patchType"] = "JSONPatch";
    answer["patch"] = absl::Base64Escape(response.patch);
  }
  if (!response.warnings.empty()) answer["warnings"] = response.warnings;
  if (!response.audit_annotations.empty()) answer["auditAnnotations"] = response.audit_annotations;
  const nlohmann::json review = {
      {"apiVersion", kApiVersion}, {"kind", kKind}, {"response", std::move(answer)}};
  return review.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

}  // namespace capstan::kube
