#include "libs/kube/testing/selector.h"

#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace capstan::kube::testing {
namespace {

// Commas within parentheses belong to a set.
std::vector<std::string> SplitTop(absl::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// A qualified name: prefix, slash, name of at most 63 of alphanumerics, '-', '_', '.'.
bool IsLabelKey(absl::string_view key) {
  const size_t slash = key.find('/');
  const absl::string_view name = slash == absl::string_view::npos ? key : key.substr(slash + 1);
  if (slash == 0 || name.empty() || name.size() > 63) return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') {
      return false;
    }
  }
  return absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.back()));
}

const std::set<std::string>& FieldsOf(const ResourceType& type) {
  static const auto* const fields = new std::map<std::string, std::set<std::string>>{
      {"pods",
       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName"}},
      {"nodes", {"spec.unschedulable"}},
      {"namespaces", {"status.phase"}},
      {"secrets", {"type"}},
      {"events",
       {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"}},
      {"events.events.k8s.io",
       {"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "reason",
        "reportingController", "type"}},
  };
  static const auto* const none = new std::set<std::string>();
  const auto found = fields->find(QualifiedResource(type));
  return found == fields->end() ? *none : found->second;
}

}  // namespace

ApiOr<LabelSelector::Requirement> LabelSelector::ParseOne(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  Requirement out;
  const auto bad = [&](absl::string_view why) {
    return BadRequest(absl::StrCat("unable to parse requirement: ", why));
  };
  const auto finish = [&](absl::string_view key) -> ApiOr<Requirement> {
    key = absl::StripAsciiWhitespace(key);
    if (!IsLabelKey(key)) return bad(absl::StrCat("invalid label key \"", key, "\""));
    out.key = std::string(key);
    return out;
  };
  if (text.empty()) return bad("found '', expected: identifier");
  if (absl::ConsumePrefix(&text, "!")) {
    out.op = Operator::kAbsent;
    return finish(text);
  }
  if (absl::EndsWith(text, ")")) {
    const size_t open = text.find('(');
    if (open == absl::string_view::npos) return bad("found ')', expected: '('");
    absl::string_view head = absl::StripAsciiWhitespace(text.substr(0, open));
    const absl::string_view list = text.substr(open + 1, text.size() - open - 2);
    for (const absl::string_view value : absl::StrSplit(list, ',')) {
      out.values.insert(std::string(absl::StripAsciiWhitespace(value)));
    }
    if (absl::ConsumeSuffix(&head, " notin")) {
      out.op = Operator::kNotIn;
    } else if (absl::ConsumeSuffix(&head, " in")) {
      out.op = Operator::kIn;
    } else {
      return bad("found '(', expected: in, notin, =, ==, !=, gt, lt");
    }
    return finish(head);
  }
  for (const auto& [sign, op] :
       std::vector<std::pair<absl::string_view, Operator>>{{"!=", Operator::kNotIn},
                                                           {"==", Operator::kIn},
                                                           {"=", Operator::kIn},
                                                           {">", Operator::kGreater},
                                                           {"<", Operator::kLess}}) {
    const size_t at = text.find(sign);
    if (at == absl::string_view::npos) continue;
    out.op = op;
    const std::string value(absl::StripAsciiWhitespace(text.substr(at + sign.size())));
    if (!value.empty() && !IsLabelKey(value)) {
      return bad(absl::StrCat("values[0]: Invalid value: \"", value, "\""));
    }
    int64_t number = 0;
    if ((op == Operator::kGreater || op == Operator::kLess) && !absl::SimpleAtoi(value, &number)) {
      return bad("for 'Gt', 'Lt' operators, the value must be an integer");
    }
    out.values.insert(value);
    return finish(text.substr(0, at));
  }
  return finish(text);
}

ApiOr<LabelSelector> LabelSelector::Parse(absl::string_view text) {
  LabelSelector selector;
  if (text.empty()) return selector;
  for (const std::string& part : SplitTop(text)) {
    CAPSTAN_API_ASSIGN_OR_RETURN(Requirement one, ParseOne(part));
    selector.requirements_.push_back(std::move(one));
  }
  return selector;
}

LabelSelector LabelSelector::FromObject(const Json& selector) {
  LabelSelector out;
  if (!selector.is_object()) {
    out.nothing_ = true;
    return out;
  }
  for (const auto& [key, value] : Member(selector, "matchLabels").items()) {
    out.requirements_.push_back({key, Operator::kIn, {Text(value)}});
  }
  for (const Json& term : Member(selector, "matchExpressions")) {
    static const auto* const operators =
        new std::map<std::string, Operator>{{"In", Operator::kIn},
                                            {"NotIn", Operator::kNotIn},
                                            {"Exists", Operator::kExists},
                                            {"DoesNotExist", Operator::kAbsent}};
    const auto op = operators->find(Text(Member(term, "operator")));
    if (op == operators->end()) {
      out.nothing_ = true;
      continue;
    }
    Requirement one{Text(Member(term, "key")), op->second, {}};
    for (const Json& value : Member(term, "values")) one.values.insert(Text(value));
    out.requirements_.push_back(std::move(one));
  }
  return out;
}

bool LabelSelector::Matches(const Json& object) const {
  if (nothing_) return false;
  const Json& labels = Find(object, {"metadata", "labels"});
  for (const Requirement& one : requirements_) {
    const bool has = labels.is_object() && labels.contains(one.key);
    const std::string value = has ? Text(labels[one.key]) : "";
    bool holds = false;
    switch (one.op) {
      case Operator::kIn:
        holds = has && one.values.count(value) > 0;
        break;
      case Operator::kNotIn:
        holds = !has || one.values.count(value) == 0;
        break;
      case Operator::kExists:
        holds = has;
        break;
      case Operator::kAbsent:
        holds = !has;
        break;
      case Operator::kGreater:
      case Operator::kLess: {
        int64_t mine = 0;
        int64_t bound = 0;
        holds = has && absl::SimpleAtoi(value, &mine) &&
                absl::SimpleAtoi(*one.values.begin(), &bound) &&
                (one.op == Operator::kGreater ? mine > bound : mine < bound);
        break;
      }
    }
    if (!holds) return false;
  }
  return true;
}

ApiOr<FieldSelector> FieldSelector::Parse(const ResourceType& type, absl::string_view text) {
  FieldSelector selector;
  if (text.empty()) return selector;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (part.empty()) continue;
    Term term;
    size_t width = 2;
    size_t at = part.find("!=");
    if (at != absl::string_view::npos) {
      term.equal = false;
    } else if ((at = part.find("==")) == absl::string_view::npos) {
      width = 1;
      at = part.find('=');
    }
    if (at == absl::string_view::npos) {
      return BadRequest(
          absl::StrCat("invalid selector: '", text, "'; can't understand '", part, "'"));
    }
    const std::string field(part.substr(0, at));
    const bool known = field == "metadata.name" ||
                       (field == "metadata.namespace" && type.namespaced) ||
                       FieldsOf(type).count(field) > 0;
    if (!known) return BadRequest(absl::StrCat("field label not supported: ", field));
    term.path = absl::StrSplit(field, '.');
    term.value = std::string(part.substr(at + width));
    selector.terms_.push_back(std::move(term));
  }
  return selector;
}

bool FieldSelector::Matches(const Json& object) const {
  for (const Term& term : terms_) {
    const Json* at = &object;
    for (const std::string& name : term.path) at = &Member(*at, name);
    std::string value = Text(*at);
    if (at->is_boolean()) value = at->get<bool>() ? "true" : "false";
    // Fields of these names are booleans, absent when false.
    if (at->is_null() &&
        (term.path.back() == "unschedulable" || term.path.back() == "hostNetwork")) {
      value = "false";
    }
    if ((value == term.value) != term.equal) return false;
  }
  return true;
}

}  // namespace capstan::kube::testing
