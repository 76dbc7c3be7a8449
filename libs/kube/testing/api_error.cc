#include "libs/kube/testing/api_error.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace capstan::kube::testing {
namespace {

Json CausesJson(const std::vector<Cause>& causes) {
  Json list = Json::array();
  for (const Cause& cause : causes) {
    Json one = Json::object();
    if (!cause.reason.empty()) one["reason"] = cause.reason;
    if (!cause.message.empty()) one["message"] = cause.message;
    if (!cause.field.empty()) one["field"] = cause.field;
    list.push_back(std::move(one));
  }
  return list;
}

Json Details(const ResourceType& type, absl::string_view name) {
  Json details = {{"kind", type.plural}};
  if (!name.empty()) details["name"] = std::string(name);
  if (!type.group.empty()) details["group"] = type.group;
  return details;
}

}  // namespace

Json ToStatus(const ApiError& error) {
  Json status = {{"kind", "Status"},    {"apiVersion", "v1"},       {"metadata", Json::object()},
                 {"status", "Failure"}, {"message", error.message}, {"code", error.code}};
  if (!error.reason.empty()) status["reason"] = error.reason;
  if (!error.details.is_null()) status["details"] = error.details;
  if (!error.continue_token.empty()) status["metadata"]["continue"] = error.continue_token;
  return status;
}

Json SuccessStatus(Json details) {
  Json status = {{"kind", "Status"},
                 {"apiVersion", "v1"},
                 {"metadata", Json::object()},
                 {"status", "Success"}};
  if (!details.is_null()) status["details"] = std::move(details);
  return status;
}

std::string QualifiedResource(const ResourceType& type) {
  return type.group.empty() ? type.plural : absl::StrCat(type.plural, ".", type.group);
}

ApiError NotFound(const ResourceType& type, absl::string_view name) {
  return {404, "NotFound", absl::StrCat(QualifiedResource(type), " \"", name, "\" not found"),
          Details(type, name), ""};
}

ApiError AlreadyExists(const ResourceType& type, absl::string_view name) {
  return {409, "AlreadyExists",
          absl::StrCat(QualifiedResource(type), " \"", name, "\" already exists"),
          Details(type, name), ""};
}

ApiError Conflict(const ResourceType& type, absl::string_view name, absl::string_view why) {
  return {409, "Conflict",
          absl::StrCat("Operation cannot be fulfilled on ", QualifiedResource(type), " \"", name,
                       "\": ", why),
          Details(type, name), ""};
}

ApiError Modified(const ResourceType& type, absl::string_view name) {
  return Conflict(type, name,
                  "the object has been modified; please apply your changes to the latest version "
                  "and try again");
}

ApiError Forbidden(const ResourceType& type, absl::string_view name, absl::string_view why,
                   const std::vector<Cause>& causes) {
  ApiError error{403, "Forbidden",
                 absl::StrCat(QualifiedResource(type), " \"", name, "\" is forbidden: ", why),
                 Details(type, name), ""};
  if (!causes.empty()) error.details["causes"] = CausesJson(causes);
  return error;
}

ApiError BadRequest(absl::string_view message) {
  return {400, "BadRequest", std::string(message), nullptr, ""};
}

ApiError Invalid(absl::string_view kind, absl::string_view group, absl::string_view name,
                 const std::vector<Cause>& causes) {
  std::vector<std::string> texts;
  for (const Cause& cause : causes) texts.push_back(absl::StrCat(cause.field, ": ", cause.message));
  const std::string all =
      texts.size() == 1 ? texts[0] : absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
  Json details = {{"kind", std::string(kind)}, {"causes", CausesJson(causes)}};
  if (!name.empty()) details["name"] = std::string(name);
  if (!group.empty()) details["group"] = std::string(group);
  return {422, "Invalid",
          absl::StrCat(kind, group.empty() ? "" : ".", group, " \"", name, "\" is invalid: ", all),
          std::move(details), ""};
}

ApiError Invalid(const ResourceType& type, absl::string_view name,
                 const std::vector<Cause>& causes) {
  return Invalid(type.kind, type.group, name, causes);
}

ApiError Expired(absl::string_view message) {
  return {410, "Expired", std::string(message), nullptr, ""};
}

ApiError TooManyRequests(absl::string_view message, absl::Duration retry_after,
                         const std::vector<Cause>& causes) {
  ApiError error{429, "TooManyRequests", std::string(message), Json::object(), ""};
  if (retry_after > absl::ZeroDuration())
    error.details["retryAfterSeconds"] = absl::ToInt64Seconds(retry_after);
  if (!causes.empty()) error.details["causes"] = CausesJson(causes);
  return error;
}

ApiError TooLargeResourceVersion(int64_t asked, int64_t current) {
  ApiError error{504, "Timeout",
                 absl::StrCat("Too large resource version: ", asked, ", current: ", current),
                 Json::object(), ""};
  error.details["retryAfterSeconds"] = 1;
  error.details["causes"] =
      CausesJson({{"ResourceVersionTooLarge", "Too large resource version", ""}});
  return error;
}

ApiError MethodNotSupported(absl::string_view verb, const ResourceType& type) {
  return {405, "MethodNotAllowed",
          absl::StrCat(verb, " is not supported on resources of kind \"", QualifiedResource(type),
                       "\""),
          Details(type, ""), ""};
}

ApiError UnsupportedMediaType(absl::string_view accepted) {
  return {415, "UnsupportedMediaType",
          absl::StrCat("the body of the request was in an unknown format - accepted media types "
                       "include: ",
                       accepted),
          nullptr, ""};
}

ApiError NotAcceptable(absl::string_view accepted) {
  return {406, "NotAcceptable",
          absl::StrCat("only the following media types are accepted: ", accepted), nullptr, ""};
}

ApiError Plain(int code, absl::string_view message, absl::Duration retry_after) {
  static const std::map<int, std::string>* const reasons =
      new std::map<int, std::string>{{400, "BadRequest"},
                                     {401, "Unauthorized"},
                                     {403, "Forbidden"},
                                     {404, "NotFound"},
                                     {405, "MethodNotAllowed"},
                                     {406, "NotAcceptable"},
                                     {409, "Conflict"},
                                     {410, "Expired"},
                                     {413, "RequestEntityTooLarge"},
                                     {415, "UnsupportedMediaType"},
                                     {422, "Invalid"},
                                     {429, "TooManyRequests"},
                                     {500, "InternalError"},
                                     {503, "ServiceUnavailable"},
                                     {504, "Timeout"}};
  const auto reason = reasons->find(code);
  ApiError error{code, reason == reasons->end() ? "" : reason->second, std::string(message),
                 nullptr, ""};
  if (retry_after > absl::ZeroDuration())
    error.details = {{"retryAfterSeconds", absl::ToInt64Seconds(retry_after)}};
  return error;
}

Cause Required(absl::string_view field, absl::string_view detail) {
  return {"FieldValueRequired", absl::StrCat("Required value", detail.empty() ? "" : ": ", detail),
          std::string(field)};
}

Cause InvalidValue(absl::string_view field, absl::string_view value, absl::string_view detail) {
  return {"FieldValueInvalid", absl::StrCat("Invalid value: ", value, ": ", detail),
          std::string(field)};
}

Cause ForbiddenField(absl::string_view field, absl::string_view detail) {
  return {"FieldValueForbidden", absl::StrCat("Forbidden: ", detail), std::string(field)};
}

}  // namespace capstan::kube::testing
