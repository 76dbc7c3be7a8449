#include "libs/kube/client/request.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace capstan::kube {
namespace {

constexpr char kJsonType[] = "application/json";
constexpr char kProtobufType[] = "application/vnd.kubernetes.protobuf";

const char* ContentType(Encoding encoding) {
  return encoding == Encoding::kJson ? kJsonType : kProtobufType;
}

const char* ContentType(PatchType type) {
  switch (type) {
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kStrategicMerge:
      return "application/strategic-merge-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";
  }
  return "";
}

const char* Name(Propagation propagation) {
  switch (propagation) {
    case Propagation::kDefault:
      return "";
    case Propagation::kOrphan:
      return "Orphan";
    case Propagation::kBackground:
      return "Background";
    case Propagation::kForeground:
      return "Foreground";
  }
  return "";
}

const char* Name(FieldValidation validation) {
  switch (validation) {
    case FieldValidation::kStrict:
      return "Strict";
    case FieldValidation::kWarn:
      return "Warn";
    case FieldValidation::kIgnore:
      return "Ignore";
  }
  return "";
}

std::string Escaped(absl::string_view text) {
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

// What came of a Status is said in either encoding, so JSON is always taken.
void Accept(Encoding encoding, ApiRequest* request) {
  request->headers.push_back({"Accept", encoding == Encoding::kJson
                                            ? kJsonType
                                            : absl::StrCat(kProtobufType, ",", kJsonType)});
}

void AddWriteOptions(const WriteOptions& options, Query* query) {
  if (options.dry_run) query->Add("dryRun", "All");
  query->Add("fieldManager", options.field_manager);
  query->Add("fieldValidation", Name(options.field_validation));
}

ApiRequest WriteRequest(const char* method, std::string path, std::string body,
                        const WriteOptions& options, Encoding encoding) {
  ApiRequest request;
  request.method = method;
  Query query;
  AddWriteOptions(options, &query);
  request.target = std::move(path) + query.text();
  Accept(encoding, &request);
  request.headers.push_back({"Content-Type", ContentType(encoding)});
  request.body = std::move(body);
  if (options.dry_run) request.repeat = Repeat::kHarmless;
  return request;
}

void AddListOptions(const ListOptions& options, Query* query) {
  query->Add("labelSelector", options.label_selector);
  query->Add("fieldSelector", options.field_selector);
  if (options.limit > 0) query->Add("limit", absl::StrCat(options.limit));
  query->Add("continue", options.continue_token);
  // A token has its own version; the server refuses both.
  if (options.continue_token.empty()) {
    query->Add("resourceVersion", options.resource_version);
    query->Add("resourceVersionMatch", options.resource_version_match);
  }
}

ApiRequest DeleteWithBody(std::string target, const DeleteOptions& options, Encoding encoding) {
  ApiRequest request;
  request.method = "DELETE";
  request.target = std::move(target);
  Accept(encoding, &request);
  request.headers.push_back({"Content-Type", kJsonType});
  request.body = DeleteOptionsJson(options);
  if (options.dry_run) request.repeat = Repeat::kHarmless;
  return request;
}

}  // namespace

void Query::Add(absl::string_view name, absl::string_view value) {
  if (!value.empty()) AddAny(name, value);
}

void Query::AddAny(absl::string_view name, absl::string_view value) {
  absl::StrAppend(&text_, text_.empty() ? "?" : "&", name, "=", Escaped(value));
}

ApiRequest GetRequest(const ResourceType& type, absl::string_view ns, absl::string_view name,
                      Encoding encoding, absl::string_view subresource) {
  ApiRequest request;
  request.target = ObjectPath(type, ns, name, subresource);
  Accept(encoding, &request);
  request.repeat = Repeat::kHarmless;
  return request;
}

ApiRequest ListRequest(const ResourceType& type, absl::string_view ns, const ListOptions& options,
                       Encoding encoding) {
  ApiRequest request;
  Query query;
  AddListOptions(options, &query);
  request.target = CollectionPath(type, ns) + query.text();
  Accept(encoding, &request);
  request.repeat = Repeat::kHarmless;
  return request;
}

ApiRequest CreateRequest(const ResourceType& type, absl::string_view ns, std::string body,
                         const WriteOptions& options, Encoding encoding) {
  return WriteRequest("POST", CollectionPath(type, ns), std::move(body), options, encoding);
}

ApiRequest CreateSubresourceRequest(const ResourceType& type, absl::string_view ns,
                                    absl::string_view name, absl::string_view subresource,
                                    std::string body, const WriteOptions& options,
                                    Encoding encoding) {
  return WriteRequest("POST", ObjectPath(type, ns, name, subresource), std::move(body), options,
                      encoding);
}

ApiRequest UpdateRequest(const ResourceType& type, absl::string_view ns, absl::string_view name,
                         absl::string_view subresource, std::string body, bool conditional,
                         const WriteOptions& options, Encoding encoding) {
  ApiRequest request = WriteRequest("PUT", ObjectPath(type, ns, name, subresource), std::move(body),
                                    options, encoding);
  if (conditional) request.repeat = Repeat::kHarmless;
  return request;
}

ApiRequest PatchRequest(const ResourceType& type, absl::string_view ns, absl::string_view name,
                        absl::string_view subresource, PatchType patch_type, std::string patch,
                        const PatchOptions& options, Encoding encoding) {
  ApiRequest request;
  request.method = "PATCH";
  Query query;
  AddWriteOptions(options, &query);
  // Only an apply may say it.
  if (options.force && patch_type == PatchType::kApply) query.Add("force", "true");
  request.target = ObjectPath(type, ns, name, subresource) + query.text();
  Accept(encoding, &request);
  request.headers.push_back({"Content-Type", ContentType(patch_type)});
  request.body = std::move(patch);
  if (options.dry_run || options.repeatable || patch_type == PatchType::kApply) {
    request.repeat = Repeat::kHarmless;
  }
  return request;
}

ApiRequest DeleteRequest(const ResourceType& type, absl::string_view ns, absl::string_view name,
                         const DeleteOptions& options, Encoding encoding) {
  ApiRequest request = DeleteWithBody(ObjectPath(type, ns, name), options, encoding);
  if (!options.uid.empty() || !options.resource_version.empty()) {
    request.repeat = Repeat::kHarmless;
  }
  return request;
}

ApiRequest DeleteCollectionRequest(const ResourceType& type, absl::string_view ns,
                                   const ListOptions& list, const DeleteOptions& options,
                                   Encoding encoding) {
  Query query;
  AddListOptions(list, &query);
  return DeleteWithBody(CollectionPath(type, ns) + query.text(), options, encoding);
}

ApiRequest LogRequest(absl::string_view ns, absl::string_view pod, const LogOptions& options) {
  ApiRequest request;
  Query query;
  query.Add("container", options.container);
  if (options.follow) query.Add("follow", "true");
  if (options.previous) query.Add("previous", "true");
  if (options.timestamps) query.Add("timestamps", "true");
  if (options.tail_lines.has_value()) query.Add("tailLines", absl::StrCat(*options.tail_lines));
  if (options.since.has_value()) {
    query.Add("sinceSeconds",
              absl::StrCat(std::max<int64_t>(1, absl::ToInt64Seconds(*options.since))));
  }
  if (options.limit_bytes.has_value()) query.Add("limitBytes", absl::StrCat(*options.limit_bytes));
  const ResourceType pods = {"", "v1", "Pod", "pods", true};
  request.target = ObjectPath(pods, ns, pod, "log") + query.text();
  // The server writes text/plain whatever is accepted; errors come as JSON.
  request.headers.push_back({"Accept", "*/*"});
  request.repeat = Repeat::kHarmless;
  return request;
}

std::string DeleteOptionsJson(const DeleteOptions& options) {
  nlohmann::json json = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (options.grace_period.has_value()) {
    json["gracePeriodSeconds"] = absl::ToInt64Seconds(*options.grace_period);
  }
  if (!options.uid.empty()) json["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    json["preconditions"]["resourceVersion"] = options.resource_version;
  }
  if (options.propagation != Propagation::kDefault) {
    json["propagationPolicy"] = Name(options.propagation);
  }
  if (options.dry_run) json["dryRun"] = {"All"};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace capstan::kube
