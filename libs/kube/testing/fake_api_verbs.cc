// What the verbs do with one resource.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/testing/api_body.h"
#include "libs/kube/testing/fake_api_http.h"
#include "libs/kube/testing/list_query.h"
#include "libs/kube/testing/patch.h"

namespace capstan::kube::testing {
namespace {

ApiError NotAllowed() {
  return Plain(405, "the server does not allow this method on the requested resource");
}

// The type of a body, of a patch.
absl::optional<PatchKind> KindOf(absl::string_view content_type) {
  content_type = content_type.substr(0, std::min(content_type.find(';'), content_type.size()));
  if (content_type == "application/json-patch+json") return PatchKind::kJson;
  if (content_type == "application/merge-patch+json") return PatchKind::kMerge;
  if (content_type == "application/strategic-merge-patch+json") return PatchKind::kStrategic;
  if (content_type == "application/apply-patch+yaml") return PatchKind::kApply;
  return absl::nullopt;
}

std::string PlaceOf(const StoreKey& key) {
  return key.ns.empty() ? key.name : absl::StrCat(key.ns, "/", key.name);
}

ApiError ExpiredToken(const std::string& start) {
  ApiError error = Expired(
      "The provided continue parameter is too old to display a consistent list result. You can "
      "start a new list without the continue parameter, or use the continue token in this response "
      "to retrieve the remainder of the results. Continuing with the provided token results in an "
      "inconsistent list - objects that were created, modified, or deleted between the time the "
      "first chunk was returned and now may show up in the list.");
  error.continue_token = WriteContinueToken({-1, start});
  return error;
}

}  // namespace

ApiOr<HttpReply> FakeApiHttp::ServeCollection(const Route& route, const Context& context) {
  const FakeType& type = *route.type;
  const std::string& method = context.request->method;
  const bool is_whole = type.resource.namespaced && route.ns.empty();
  if (method == "GET" && !type.create_only) {
    return context.target.Flag("watch") ? Watch(route, context) : List(route, context);
  }
  if (method == "POST" && !is_whole) {
    CAPSTAN_API_ASSIGN_OR_RETURN(const WriteOptions options,
                                 ReadWriteOptions(context, "CreateOptions", false));
    CAPSTAN_API_ASSIGN_OR_RETURN(Json body, ReadBody(*context.request, converter_));
    if (!body.is_object()) return BadRequest("the body is no object");
    CAPSTAN_API_ASSIGN_OR_RETURN(const Json created,
                                 state_->Create(type, route.ns, std::move(body), options));
    return Reply(201, created, context);
  }
  if (method == "DELETE" && !is_whole && !type.create_only) return DeleteCollection(route, context);
  return NotAllowed();
}

ApiOr<HttpReply> FakeApiHttp::GetOne(const Route& route, const Context& context) {
  CAPSTAN_API_ASSIGN_OR_RETURN(const ListQuery query, ParseListQuery(context.target));
  if (query.revision.value_or(0) > state_->store().revision())
    return Wait(*query.revision, context);
  if (context.options.stale_by > 0) {
    const RevisionStore& store = state_->store();
    const int64_t then = std::max(store.compacted(), store.revision() - context.options.stale_by);
    const auto objects = store.ListAt(route.type->StoreName(), route.ns, then);
    for (const auto& [key, object] : objects) {
      if (key.name == route.name) return Reply(200, *object, context);
    }
    return NotFound(route.type->resource, route.name);
  }
  CAPSTAN_API_ASSIGN_OR_RETURN(const Json object, state_->Get(*route.type, route.ns, route.name));
  return Reply(200, object, context);
}

ApiOr<HttpReply> FakeApiHttp::ServeObject(const Route& route, const Context& context) {
  const FakeType& type = *route.type;
  if (type.create_only) return NotAllowed();
  const std::string& method = context.request->method;
  if (method == "GET") return GetOne(route, context);
  if (method == "PATCH") return Patch(route, context);
  if (method == "DELETE") return Delete(route, context);
  if (method != "PUT") return NotAllowed();
  CAPSTAN_API_ASSIGN_OR_RETURN(const WriteOptions options,
                               ReadWriteOptions(context, "UpdateOptions", false));
  CAPSTAN_API_ASSIGN_OR_RETURN(Json body, ReadBody(*context.request, converter_));
  if (!body.is_object()) return BadRequest("the body is no object");
  CAPSTAN_API_ASSIGN_OR_RETURN(const Written written, state_->Update(type, route.ns, route.name, "",
                                                                     std::move(body), options));
  return Reply(written.created ? 201 : 200, written.object, context);
}

ApiOr<HttpReply> FakeApiHttp::ServeSubresource(const Route& route, const Context& context) {
  const FakeType& type = *route.type;
  const std::string& method = context.request->method;
  const std::string& sub = route.subresource;
  const std::string resource = QualifiedResource(type.resource);
  const bool creates = method == "POST" && ((resource == "pods" && sub == "binding") ||
                                            (resource == "pods" && sub == "eviction") ||
                                            (resource == "serviceaccounts" && sub == "token"));
  if (creates) {
    CAPSTAN_API_ASSIGN_OR_RETURN(WriteOptions options,
                                 ReadWriteOptions(context, "CreateOptions", false));
    CAPSTAN_API_ASSIGN_OR_RETURN(const Json body, ReadBody(*context.request, converter_));
    // An eviction may say so in the deletion's options too.
    const Json& dry_run = Find(body, {"deleteOptions", "dryRun"});
    options.dry_run = options.dry_run || (dry_run.is_array() && !dry_run.empty());
    CAPSTAN_API_ASSIGN_OR_RETURN(
        const Json answer, sub == "binding"    ? state_->Bind(route.ns, route.name, body, options)
                           : sub == "eviction" ? state_->Evict(route.ns, route.name, body, options)
                                               : state_->CreateToken(route.ns, route.name, body));
    return Reply(201, answer, context);
  }
  if (sub == "status" && type.status) {
    if (method == "GET") return GetOne(route, context);
    if (method == "PATCH") return Patch(route, context);
    if (method != "PUT") return NotAllowed();
    CAPSTAN_API_ASSIGN_OR_RETURN(const WriteOptions options,
                                 ReadWriteOptions(context, "UpdateOptions", false));
    CAPSTAN_API_ASSIGN_OR_RETURN(Json body, ReadBody(*context.request, converter_));
    CAPSTAN_API_ASSIGN_OR_RETURN(
        const Written written,
        state_->Update(type, route.ns, route.name, "status", std::move(body), options));
    return Reply(200, written.object, context);
  }
  if (sub == "scale" && type.scale) {
    if (method == "GET") {
      CAPSTAN_API_ASSIGN_OR_RETURN(const Json scale, state_->GetScale(type, route.ns, route.name));
      return Reply(200, scale, context);
    }
    CAPSTAN_API_ASSIGN_OR_RETURN(const WriteOptions options,
                                 ReadWriteOptions(context, "UpdateOptions", false));
    CAPSTAN_API_ASSIGN_OR_RETURN(Json body, ReadBody(*context.request, converter_));
    if (method == "PATCH") {
      CAPSTAN_API_ASSIGN_OR_RETURN(const Json object, state_->Get(type, route.ns, route.name));
      const Json scale = state_->ScaleOf(type, object);
      const absl::optional<PatchKind> kind =
          KindOf(FindHeader(context.request->headers, "Content-Type").value_or(""));
      // A Scale has no lists, so the strategic one is as the other. No one applies Scales here.
      const bool merges =
          kind == PatchKind::kMerge || (kind == PatchKind::kStrategic && type.builtin);
      if (!merges && kind != PatchKind::kJson) {
        return UnsupportedMediaType("application/json-patch+json, application/merge-patch+json");
      }
      CAPSTAN_API_ASSIGN_OR_RETURN(body, merges ? MergePatch(scale, body) : JsonPatch(scale, body));
    } else if (method != "PUT") {
      return NotAllowed();
    }
    CAPSTAN_API_ASSIGN_OR_RETURN(const Json scale,
                                 state_->UpdateScale(type, route.ns, route.name, body, options));
    return Reply(200, scale, context);
  }
  // The server routes no further.
  if (sub == "status" || sub == "scale") {
    return Plain(404, "the server could not find the requested resource");
  }
  return NotAllowed();
}

ApiOr<HttpReply> FakeApiHttp::Patch(const Route& route, const Context& context) {
  const absl::optional<PatchKind> kind =
      KindOf(FindHeader(context.request->headers, "Content-Type").value_or(""));
  if (!kind.has_value() || (*kind == PatchKind::kStrategic && !route.type->builtin)) {
    return UnsupportedMediaType(
        route.type->builtin ? "application/json-patch+json, application/merge-patch+json, "
                              "application/strategic-merge-patch+json, application/apply-patch+yaml"
                            : "application/json-patch+json, application/merge-patch+json, "
                              "application/apply-patch+yaml");
  }
  CAPSTAN_API_ASSIGN_OR_RETURN(
      const WriteOptions options,
      ReadWriteOptions(context, "PatchOptions", *kind == PatchKind::kApply));
  CAPSTAN_API_ASSIGN_OR_RETURN(const Json body, ReadBody(*context.request, converter_));
  CAPSTAN_API_ASSIGN_OR_RETURN(
      const Written written,
      state_->Patch(*route.type, route.ns, route.name, route.subresource, *kind, body, options));
  return Reply(written.created ? 201 : 200, written.object, context);
}

ApiOr<DeleteOptions> FakeApiHttp::ReadDeleteOptions(const Context& context) const {
  DeleteOptions options;
  CAPSTAN_API_ASSIGN_OR_RETURN(const Json body, ReadBody(*context.request, converter_));
  const auto text = [&](const Json& value, const char* parameter) {
    if (value.is_string()) return absl::optional<std::string>(Text(value));
    if (context.target.Has(parameter)) {
      return absl::optional<std::string>(context.target.Parameter(parameter));
    }
    return absl::optional<std::string>();
  };
  options.propagation = text(Member(body, "propagationPolicy"), "propagationPolicy");
  options.uid = text(Find(body, {"preconditions", "uid"}), "");
  options.resource_version = text(Find(body, {"preconditions", "resourceVersion"}), "");
  const Json& grace = Member(body, "gracePeriodSeconds");
  if (grace.is_number_integer()) {
    options.grace_period_seconds = grace.get<int64_t>();
  } else if (context.target.Has("gracePeriodSeconds")) {
    const Json number = ParseJson(context.target.Parameter("gracePeriodSeconds"));
    if (!number.is_number_integer()) return BadRequest("gracePeriodSeconds is no integer");
    options.grace_period_seconds = number.get<int64_t>();
  }
  const Json& orphan = Member(body, "orphanDependents");
  if (orphan.is_boolean()) {
    if (options.propagation.has_value()) {
      return Invalid("DeleteOptions", "meta.k8s.io", "",
                     {InvalidValue("propagationPolicy", WriteJson(*options.propagation),
                                   "orphanDependents and deletionPropagation cannot be both set")});
    }
    options.propagation = orphan.get<bool>() ? "Orphan" : "Background";
    options.takes_dependents = !orphan.get<bool>();
  }
  const Json& dry_run = Member(body, "dryRun");
  options.dry_run = context.target.Parameter("dryRun") == "All" || dry_run == Json{"All"};
  if (!options.dry_run && (context.target.Has("dryRun") || !dry_run.is_null())) {
    return Invalid(
        "DeleteOptions", "meta.k8s.io", "",
        {{"FieldValueNotSupported", "Unsupported value: supported values: \"All\"", "dryRun"}});
  }
  return options;
}

ApiOr<HttpReply> FakeApiHttp::Delete(const Route& route, const Context& context) {
  CAPSTAN_API_ASSIGN_OR_RETURN(const DeleteOptions options, ReadDeleteOptions(context));
  CAPSTAN_API_ASSIGN_OR_RETURN(const Deleted deleted,
                               state_->Delete(*route.type, route.ns, route.name, options));
  return Reply(deleted.code, deleted.body, context);
}

ApiOr<HttpReply> FakeApiHttp::DeleteCollection(const Route& route, const Context& context) {
  const FakeType& type = *route.type;
  CAPSTAN_API_ASSIGN_OR_RETURN(const DeleteOptions options, ReadDeleteOptions(context));
  CAPSTAN_API_ASSIGN_OR_RETURN(const LabelSelector labels,
                               LabelSelector::Parse(context.target.Parameter("labelSelector")));
  CAPSTAN_API_ASSIGN_OR_RETURN(
      const FieldSelector fields,
      FieldSelector::Parse(type.resource, context.target.Parameter("fieldSelector")));
  Json list = {{"kind", type.list_kind},
               {"apiVersion", ApiVersion(type.resource)},
               {"metadata", {{"resourceVersion", absl::StrCat(state_->store().revision())}}},
               {"items", Json::array()}};
  for (const auto& [key, object] : state_->store().List(type.StoreName(), route.ns)) {
    if (!labels.Matches(*object) || !fields.Matches(*object)) continue;
    CAPSTAN_API_ASSIGN_OR_RETURN(const Deleted deleted,
                                 state_->Delete(type, key.ns, key.name, options));
    (void)deleted;
    Json item = *object;
    if (type.builtin) {
      item.erase("kind");
      item.erase("apiVersion");
    }
    list["items"].push_back(std::move(item));
  }
  return Reply(200, list, context);
}

ApiOr<HttpReply> FakeApiHttp::List(const Route& route, const Context& context) {
  const FakeType& type = *route.type;
  const RevisionStore& store = state_->store();
  CAPSTAN_API_ASSIGN_OR_RETURN(const ListQuery query, ParseListQuery(context.target));
  CAPSTAN_API_ASSIGN_OR_RETURN(const LabelSelector labels,
                               LabelSelector::Parse(context.target.Parameter("labelSelector")));
  CAPSTAN_API_ASSIGN_OR_RETURN(
      const FieldSelector fields,
      FieldSelector::Parse(type.resource, context.target.Parameter("fieldSelector")));
  int64_t revision = store.revision();
  int64_t limit = query.limit;
  std::string start;
  if (!query.continue_token.empty()) {
    CAPSTAN_API_ASSIGN_OR_RETURN(const ContinueToken token,
                                 ReadContinueToken(query.continue_token));
    start = token.start;
    if (token.revision >= 0) {
      if (token.revision < store.compacted()) return ExpiredToken(start);
      revision = std::min(token.revision, store.revision());
    }
  } else if (query.revision.has_value()) {
    const bool exact = query.match == RevisionMatch::kExact ||
                       (query.match == RevisionMatch::kUnset && limit > 0 && *query.revision > 0);
    if (*query.revision > store.revision()) return Wait(*query.revision, context);
    if (exact) {
      if (*query.revision < store.compacted()) {
        return Expired("The resourceVersion for the provided list is too old.");
      }
      revision = *query.revision;
    } else if (*query.revision == 0) {
      // Served from the watch cache, which does not page.
      limit = 0;
    }
  }
  if (context.options.stale_by > 0 && query.continue_token.empty()) {
    revision = std::max(store.compacted(), revision - context.options.stale_by);
  }
  Json list = {{"kind", type.list_kind},
               {"apiVersion", ApiVersion(type.resource)},
               {"metadata", {{"resourceVersion", absl::StrCat(revision)}}},
               {"items", Json::array()}};
  // The count of what remains is only told where nothing is selected.
  const bool counts = labels.empty() && fields.empty();
  int64_t remaining = 0;
  std::string last;
  Json& items = list["items"];
  const auto visit = [&](const StoreKey& key, const ObjectRef& object) {
    if (!labels.Matches(*object) || !fields.Matches(*object)) return true;
    if (limit > 0 && static_cast<int64_t>(items.size()) >= limit) {
      ++remaining;
      return counts;
    }
    last = PlaceOf(key);
    Json item = *object;
    if (type.builtin) {
      // The items of a typed list do not repeat them.
      item.erase("kind");
      item.erase("apiVersion");
    } else {
      item["apiVersion"] = ApiVersion(type.resource);
    }
    items.push_back(std::move(item));
    return true;
  };
  absl::optional<StoreKey> after;
  if (!start.empty()) {
    // Places are compared by namespace, then name, as the store sorts.
    const size_t slash = start.find('/');
    after = {type.StoreName(), slash == std::string::npos ? "" : start.substr(0, slash),
             slash == std::string::npos ? start : start.substr(slash + 1)};
  }
  store.VisitAt(type.StoreName(), route.ns, revision, after.has_value() ? &*after : nullptr, visit);
  if (remaining > 0) {
    list["metadata"]["continue"] = WriteContinueToken({revision, last});
    if (counts) list["metadata"]["remainingItemCount"] = remaining;
  }
  return Reply(200, list, context);
}

ApiOr<HttpReply> FakeApiHttp::Watch(const Route& route, const Context& context) {
  const FakeType& type = *route.type;
  const std::string from = context.target.Parameter("resourceVersion");
  if (int64_t number = 0; !from.empty() && !absl::SimpleAtoi(from, &number)) {
    // Of a list it is a bad request; here no one makes it one.
    return Plain(
        500, absl::StrCat("resourceVersion: Invalid value: ", WriteJson(from),
                          ": strconv.ParseUint: parsing ", WriteJson(from), ": invalid syntax"));
  }
  CAPSTAN_API_ASSIGN_OR_RETURN(const ListQuery query, ParseListQuery(context.target));
  WatchPlan plan;
  plan.type = &type;
  plan.ns = route.ns;
  plan.encoding = context.encoding;
  plan.bookmarks = query.bookmarks;
  CAPSTAN_API_ASSIGN_OR_RETURN(plan.labels,
                               LabelSelector::Parse(context.target.Parameter("labelSelector")));
  CAPSTAN_API_ASSIGN_OR_RETURN(
      plan.fields, FieldSelector::Parse(type.resource, context.target.Parameter("fieldSelector")));
  if (query.timeout_seconds.value_or(0) > 0) {
    plan.timeout = absl::Seconds(*query.timeout_seconds);
  }
  const int64_t revision = query.revision.value_or(0);
  const bool initial = query.send_initial_events.value_or(revision == 0);
  if (initial) {
    if (revision > state_->store().revision()) return Wait(revision, context);
    plan.initial_events_end = query.send_initial_events.has_value() && query.bookmarks;
  } else {
    plan.after_revision = revision == 0 ? state_->store().revision() : revision;
  }
  HttpReply reply;
  reply.head = {200,
                {{"Cache-Control", "no-cache, private"},
                 {"Content-Type", context.encoding == Encoding::kProtobuf
                                      ? absl::StrCat(kProtobufType, ";stream=watch")
                                      : std::string(kJsonType)}}};
  reply.watch = std::move(plan);
  return reply;
}

}  // namespace capstan::kube::testing
