#include "libs/kube/testing/fake_api_http.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/testing/api_body.h"
#include "libs/kube/testing/list_query.h"

namespace capstan::kube::testing {
namespace {

HttpReply TextReply(int code, std::string text) {
  HttpReply reply;
  reply.head = {
      code, {{"Content-Type", "text/plain; charset=utf-8"}, {"X-Content-Type-Options", "nosniff"}}};
  reply.body = std::move(text);
  return reply;
}

void SetType(Encoding encoding, HttpReply* reply) {
  reply->head.headers = {
      {"Cache-Control", "no-cache, private"},
      {"Content-Type", encoding == Encoding::kProtobuf ? kProtobufType : kJsonType}};
}

// An ApiError's reply, if there is one.
HttpReply Settle(ApiOr<HttpReply> reply, Encoding encoding, const ObjectConverter* converter) {
  return reply.ok() ? std::move(*reply) : ErrorReply(reply.error(), encoding, converter);
}

std::string ManagerFrom(const HttpRequest& request) {
  // The part of the user agent before the slash, as the server derives it.
  const std::string agent(FindHeader(request.headers, "User-Agent").value_or("unknown"));
  return agent.substr(0, std::min<size_t>(agent.find('/'), 128));
}

}  // namespace

HttpReply ErrorReply(const ApiError& error, Encoding encoding, const ObjectConverter* converter) {
  HttpReply reply;
  const Json status = ToStatus(error);
  reply.body = WriteBody(status, converter, &encoding);
  SetType(encoding, &reply);
  reply.head.status = error.code;
  const Json& delay = Member(error.details, "retryAfterSeconds");
  if (delay.is_number_integer()) {
    reply.head.headers.push_back({"Retry-After", absl::StrCat(delay.get<int64_t>())});
  }
  return reply;
}

HttpReply FakeApiHttp::Reply(int code, const Json& body, const Context& context) const {
  HttpReply reply;
  Encoding encoding = context.encoding;
  reply.body = WriteBody(body, converter_, &encoding);
  SetType(encoding, &reply);
  reply.head.status = code;
  return reply;
}

HttpReply FakeApiHttp::Wait(int64_t revision, const Context& context) const {
  if (context.options.has_waited) {
    return ErrorReply(TooLargeResourceVersion(revision, state_->store().revision()),
                      context.encoding, converter_);
  }
  HttpReply reply;
  reply.wait_for = revision;
  return reply;
}

absl::optional<FakeApiHttp::Route> FakeApiHttp::FindRoute(const HttpTarget& target) const {
  std::vector<std::string> rest = target.segments;
  std::string group;
  std::string version;
  if (rest.size() > 2 && rest[0] == "api") {
    version = rest[1];
    rest.erase(rest.begin(), rest.begin() + 2);
  } else if (rest.size() > 3 && rest[0] == "apis") {
    group = rest[1];
    version = rest[2];
    rest.erase(rest.begin(), rest.begin() + 3);
  } else {
    return absl::nullopt;
  }
  Route route;
  const bool in_namespace =
      rest.size() >= 3 && rest[0] == "namespaces" &&
      !(group.empty() && rest.size() == 3 && (rest[2] == "status" || rest[2] == "finalize"));
  if (in_namespace) {
    route.ns = rest[1];
    rest.erase(rest.begin(), rest.begin() + 2);
  }
  if (rest.empty() || rest.size() > 3) return absl::nullopt;
  route.type = state_->FindType(group, version, rest[0]);
  if (route.type == nullptr) return absl::nullopt;
  if (rest.size() > 1) route.name = rest[1];
  if (rest.size() > 2) route.subresource = rest[2];
  const bool namespaced = route.type->resource.namespaced;
  if (in_namespace && !namespaced) return absl::nullopt;
  if (namespaced && !in_namespace && !route.name.empty()) return absl::nullopt;
  return route;
}

HttpReply FakeApiHttp::Handle(const HttpRequest& request, const HandleOptions& options) {
  Context context;
  context.request = &request;
  context.options = options;
  absl::optional<HttpTarget> target = ParseTarget(request.target);
  if (!target.has_value()) return TextReply(400, "400 Bad Request");
  context.target = *std::move(target);
  const absl::optional<Route> route = FindRoute(context.target);
  if (!route.has_value()) return Discover(context);
  return Serve(*route, &context);
}

HttpReply FakeApiHttp::Serve(const Route& route, Context* context) {
  const absl::string_view accept = FindHeader(context->request->headers, "Accept").value_or("");
  const bool protobuf =
      route.type->builtin && converter_ != nullptr &&
      converter_->Knows(ApiVersion(route.type->resource), route.type->resource.kind);
  const absl::optional<Encoding> encoding = Negotiate(accept, protobuf);
  if (!encoding.has_value()) {
    return ErrorReply(NotAcceptable(
        protobuf ? "application/json, application/yaml, application/vnd.kubernetes.protobuf"
                 : "application/json, application/yaml"));
  }
  context->encoding = *encoding;
  if (context->request->body.size() > kMaxRequestBytes) {
    return ErrorReply(
        Plain(413, absl::StrCat("Request entity too large: limit is ", kMaxRequestBytes)),
        context->encoding, converter_);
  }
  ApiOr<HttpReply> reply = route.name.empty()          ? ServeCollection(route, *context)
                           : route.subresource.empty() ? ServeObject(route, *context)
                                                       : ServeSubresource(route, *context);
  return Settle(std::move(reply), context->encoding, converter_);
}

HttpReply FakeApiHttp::Discover(const Context& context) const {
  const std::vector<std::string>& path = context.target.segments;
  const HttpReply not_found = TextReply(404, "404 page not found\n");
  if (context.request->method != "GET") return not_found;
  const auto as_group = [&](const std::string& group) {
    std::vector<std::string> versions;
    for (const FakeType* const type : state_->types()) {
      if (type->resource.group == group &&
          std::find(versions.begin(), versions.end(), type->resource.version) == versions.end()) {
        versions.push_back(type->resource.version);
      }
    }
    Json json = {{"name", group}, {"versions", Json::array()}};
    for (const std::string& version : versions) {
      json["versions"].push_back(
          {{"groupVersion", absl::StrCat(group, "/", version)}, {"version", version}});
    }
    if (!versions.empty()) json["preferredVersion"] = json["versions"][0];
    return json;
  };
  if (path.size() == 1) {
    if (path[0] == "version") {
      const std::vector<std::string> parts = absl::StrSplit(git_version_.substr(1), '.');
      return Reply(200,
                   {{"major", parts[0]},
                    {"minor", parts.size() > 1 ? parts[1] : "0"},
                    {"gitVersion", git_version_},
                    {"platform", "linux/amd64"}},
                   context);
    }
    if (path[0] == "healthz" || path[0] == "livez" || path[0] == "readyz") {
      return TextReply(200, "ok");
    }
    if (path[0] == "api") {
      return Reply(200, {{"kind", "APIVersions"}, {"versions", {"v1"}}}, context);
    }
    if (path[0] == "apis") {
      Json list = {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", Json::array()}};
      std::set<std::string> groups;
      for (const FakeType* const type : state_->types()) {
        if (!type->resource.group.empty() && groups.insert(type->resource.group).second) {
          list["groups"].push_back(as_group(type->resource.group));
        }
      }
      return Reply(200, list, context);
    }
    return not_found;
  }
  if (path.size() == 2 && path[0] == "apis") {
    Json group = as_group(path[1]);
    if (group["versions"].empty()) return not_found;
    group["kind"] = "APIGroup";
    group["apiVersion"] = "v1";
    return Reply(200, group, context);
  }
  const bool is_core = path.size() == 2 && path[0] == "api";
  if (!is_core && !(path.size() == 3 && path[0] == "apis")) return not_found;
  const std::string group = is_core ? "" : path[1];
  const std::string version = path.back();
  Json list = {{"kind", "APIResourceList"},
               {"apiVersion", "v1"},
               {"groupVersion", is_core ? version : absl::StrCat(group, "/", version)},
               {"resources", Json::array()}};
  for (const FakeType* const type : state_->types()) {
    if (type->resource.group != group || type->resource.version != version) continue;
    Json resource = {{"name", type->resource.plural},
                     {"singularName", type->singular},
                     {"namespaced", type->resource.namespaced},
                     {"kind", type->resource.kind},
                     {"verbs", {"create"}}};
    if (!type->create_only) {
      resource["verbs"] = {"create", "delete", "deletecollection", "get",
                           "list",   "patch",  "update",           "watch"};
    }
    if (!type->short_names.empty()) resource["shortNames"] = type->short_names;
    list["resources"].push_back(resource);
    if (!type->status) continue;
    resource["name"] = type->resource.plural + "/status";
    resource["singularName"] = "";
    resource["verbs"] = {"get", "patch", "update"};
    resource.erase("shortNames");
    list["resources"].push_back(resource);
  }
  return list["resources"].empty() ? not_found : Reply(200, list, context);
}

ApiOr<WriteOptions> FakeApiHttp::ReadWriteOptions(const Context& context,
                                                  absl::string_view options_kind,
                                                  bool apply) const {
  WriteOptions options;
  std::vector<Cause> causes;
  const std::string dry_run = context.target.Parameter("dryRun");
  if (!dry_run.empty() && dry_run != "All") {
    causes.push_back(
        {"FieldValueNotSupported",
         absl::StrCat("Unsupported value: [", WriteJson(dry_run), "]: supported values: \"All\""),
         "dryRun"});
  }
  options.dry_run = dry_run == "All";
  options.force = context.target.Flag("force");
  const std::string manager = context.target.Parameter("fieldManager");
  options.field_manager = manager.empty() ? ManagerFrom(*context.request) : manager;
  if (apply && manager.empty()) {
    causes.push_back(Required("fieldManager", "is required for apply patch"));
  }
  if (!apply && context.target.Has("force") && options_kind == "PatchOptions") {
    causes.push_back(ForbiddenField("force", "may not be specified for non-apply patch"));
  }
  if (manager.size() > 128) {
    causes.push_back(
        {"FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"});
  }
  const std::string validation = context.target.Parameter("fieldValidation");
  if (!validation.empty() && validation != "Ignore" && validation != "Warn" &&
      validation != "Strict") {
    causes.push_back({"FieldValueNotSupported",
                      absl::StrCat("Unsupported value: ", WriteJson(validation),
                                   ": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""),
                      "fieldValidation"});
  }
  options.strict = validation == "Strict";
  if (!causes.empty()) return Invalid(options_kind, "meta.k8s.io", "", causes);
  return options;
}

}  // namespace capstan::kube::testing
