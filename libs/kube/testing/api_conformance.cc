#include "libs/kube/testing/api_conformance.h"

#include <atomic>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "libs/kube/testing/collected_response.h"
#include "libs/kube/testing/conformance_cases.h"
#include "libs/kube/testing/json.h"

namespace capstan::kube::testing {
namespace {

class Run {
 public:
  Run(const ConformanceTarget& target, std::string ns) : target_(target) {
    variables_ = {{"ns", ns},
                  {"core", absl::StrCat("/api/v1/namespaces/", ns)},
                  {"apps", absl::StrCat("/apis/apps/v1/namespaces/", ns)},
                  {"coordination", absl::StrCat("/apis/coordination.k8s.io/v1/namespaces/", ns)},
                  {"policy", absl::StrCat("/apis/policy/v1/namespaces/", ns)}};
  }

  std::vector<std::string> Do(const std::string& script) {
    const std::vector<std::string> lines = absl::StrSplit(script, '\n');
    for (size_t i = 0; i < lines.size() && failures_.empty(); ++i) {
      line_ = std::string(absl::StripAsciiWhitespace(lines[i]));
      if (line_.empty() || line_[0] == '#') continue;
      if (line_[0] != '>') {
        Line();
        continue;
      }
      const std::string head = line_;
      std::string body;
      while (i + 1 < lines.size()) {
        const absl::string_view next = absl::StripAsciiWhitespace(lines[i + 1]);
        if (next.empty() || (next[0] != '{' && next[0] != '[')) break;
        absl::StrAppend(&body, Expand(std::string(next)));
        ++i;
      }
      line_ = head;
      Request(std::move(body));
    }
    return failures_;
  }

 private:
  void Fail(absl::string_view what) {
    failures_.push_back(absl::StrCat("`", line_, "`: ", what, "; the last answer was ", code_, " ",
                                     WriteJson(answer_).substr(0, 1500)));
  }

  std::string Expand(std::string text) const {
    for (const auto& [name, value] : variables_) {
      absl::StrReplaceAll({{absl::StrCat("${", name, "}"), value}}, &text);
    }
    return text;
  }

  void Exchange(HttpRequest request) {
    request.headers.push_back({"Accept", "application/json"});
    request.headers.push_back({"User-Agent", "conformance/1"});
    request.timeout = target_.limit;
    CollectedResponse response(target_.transport, std::move(request), target_.pump);
    answer_ = nullptr;
    code_ = 0;
    if (!response.WaitForEnd(target_.limit)) return Fail("no answer in time");
    if (!response.end().ok()) return Fail(response.end().ToString());
    head_ = response.head();
    code_ = head_.status;
    answer_ = ParseJson(response.body());
    if (answer_.is_discarded()) answer_ = response.body();
  }

  void Request(std::string body) {
    const std::vector<std::string> words =
        absl::StrSplit(Expand(line_.substr(1)), ' ', absl::SkipEmpty());
    if (words.size() < 2) return Fail("needs a method and a path");
    HttpRequest request;
    request.method = words[0];
    request.target = words[1];
    request.body = std::move(body);
    const std::string kind = words.size() > 2 ? words[2] : "";
    const std::string type = kind == "merge"       ? "application/merge-patch+json"
                             : kind == "json"      ? "application/json-patch+json"
                             : kind == "strategic" ? "application/strategic-merge-patch+json"
                             : kind == "apply"     ? "application/apply-patch+yaml"
                             : kind.empty()        ? "application/json"
                                                   : kind;
    if (!request.body.empty()) request.headers.push_back({"Content-Type", type});
    Exchange(std::move(request));
  }

  const Json* At(const std::string& pointer) {
    if (pointer == "/") return &answer_;
    const Json::json_pointer at(pointer);
    return answer_.contains(at) ? &answer_[at] : nullptr;
  }

  void Check(const std::string& pointer, const std::string& expected) {
    const Json* const value = At(pointer);
    if (expected == "absent") {
      if (value != nullptr && !value->is_null()) Fail("is there");
      return;
    }
    if (value == nullptr) return Fail("is not there");
    if (expected == "present") return;
    if (expected[0] == '~') {
      const std::string text = value->is_string() ? value->get<std::string>() : WriteJson(*value);
      if (!absl::StrContains(text, expected.substr(1))) Fail(absl::StrCat("is ", text));
      return;
    }
    size_t count = 0;
    if (expected[0] == '#' && absl::SimpleAtoi(expected.substr(1), &count)) {
      if (value->size() != count) Fail(absl::StrCat("has ", value->size(), " members"));
      return;
    }
    if (*value != ParseJson(expected)) Fail(absl::StrCat("is ", WriteJson(*value)));
  }

  void Line() {
    const std::vector<std::string> words =
        absl::StrSplit(Expand(line_.substr(1)), absl::MaxSplits(' ', 2), absl::SkipEmpty());
    const std::string first = !words.empty() ? words[0] : "";
    const std::string second = words.size() > 1 ? words[1] : "";
    switch (line_[0]) {
      case '=':
        if (absl::StrCat(code_) != first) return Fail(absl::StrCat("the code is ", code_));
        if (!second.empty() && Text(Member(answer_, "reason")) != second) {
          Fail(absl::StrCat("the reason is ", Text(Member(answer_, "reason"))));
        }
        return;
      case '?': {
        const std::vector<std::string> two = absl::StrSplit(
            absl::StripAsciiWhitespace(Expand(line_.substr(1))), absl::MaxSplits(' ', 1));
        return two.size() == 2 ? Check(two[0], two[1]) : Fail("needs a value");
      }
      case '!': {
        const Json* const value = At(second);
        if (value == nullptr) return Fail("is not there");
        variables_[first] = value->is_string() ? value->get<std::string>() : WriteJson(*value);
        return;
      }
      case '-': {
        const auto header = FindHeader(head_.headers, first);
        if (!header.has_value() || !absl::StrContains(*header, second)) Fail("is another header");
        return;
      }
      case 'w': {
        HttpRequest request;
        request.target = second;
        request.headers = {{"Accept", "application/json"}, {"User-Agent", "conformance/1"}};
        request.timeout = absl::InfiniteDuration();
        watches_[first] = std::make_unique<CollectedResponse>(target_.transport, std::move(request),
                                                              target_.pump);
        if (!watches_[first]->WaitForHead(target_.limit)) Fail("no head in time");
        code_ = watches_[first]->head().status;
        answer_ = nullptr;
        return;
      }
      case 'e':
        return Event(first, second);
      case 'x':
        return End(first);
      case 'c':
        watches_.erase(first);
        return;
      case 's':
        return Served(first);
      case 'b':
        return Broken(first);
      case 'k': {
        const auto& fault = first == "compact" ? target_.compact : target_.restart;
        return fault ? fault() : Fail("the target does not offer it");
      }
      case 'u':
        return Until(first, second);
      default:
        return Fail("is no line of the language");
    }
  }

  void Event(const std::string& watch, const std::string& type) {
    const auto found = watches_.find(watch);
    if (found == watches_.end()) return Fail("there is no such watch");
    while (true) {
      std::string line;
      if (!found->second->NextLine(target_.limit, &line)) return Fail("no event came");
      const Json event = ParseJson(line);
      answer_ = Member(event, "object");
      const std::string got = Text(Member(event, "type"));
      if (got == "BOOKMARK" && type != "BOOKMARK") continue;
      if (got != type) Fail(absl::StrCat("the event is ", got));
      return;
    }
  }

  void End(const std::string& watch) {
    const auto found = watches_.find(watch);
    if (found == watches_.end()) return Fail("there is no such watch");
    std::string line;
    while (found->second->NextLine(target_.limit, &line)) {
      if (Text(Member(ParseJson(line), "type")) != "BOOKMARK") return Fail("more came: " + line);
    }
    if (!found->second->WaitForEnd(target_.limit) || !found->second->end().ok()) {
      Fail(absl::StrCat("the end is ", found->second->end().ToString()));
    }
  }

  // A definition is served some time after it was made, and nothing says when.
  void Served(const std::string& path) {
    constexpr int kTries = 10000;
    for (int i = 0; i < kTries && failures_.empty(); ++i) {
      HttpRequest get;
      get.target = path;
      Exchange(std::move(get));
      if (code_ != 404) return;
    }
    Fail("is not served");
  }
  void Broken(const std::string& watch) {
    const auto found = watches_.find(watch);
    if (found == watches_.end()) return Fail("there is no such watch");
    if (!found->second->WaitForEnd(target_.limit)) Fail("it goes on");
  }

  // Looks anew after each event of the object.
  void Until(const std::string& code, const std::string& path) {
    const size_t slash = path.rfind('/');
    HttpRequest request;
    request.target =
        absl::StrCat(path.substr(0, slash), "?watch=true&fieldSelector=metadata.name%3D",
                     path.substr(slash + 1));
    request.timeout = absl::InfiniteDuration();
    CollectedResponse watch(target_.transport, std::move(request), target_.pump);
    watch.WaitForHead(target_.limit);
    const std::string line = line_;
    while (failures_.empty()) {
      HttpRequest get;
      get.target = path;
      Exchange(std::move(get));
      if (absl::StrCat(code_) == code) return;
      std::string event;
      line_ = line;
      if (!watch.NextLine(target_.limit, &event)) return Fail("did not come to be");
    }
  }

  const ConformanceTarget& target_;
  std::map<std::string, std::string> variables_;
  std::map<std::string, std::unique_ptr<CollectedResponse>> watches_;
  std::string line_;
  HttpHead head_;
  int code_ = 0;
  Json answer_;
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<ConformanceCase> ConformanceCases() {
  std::vector<ConformanceCase> all;
  for (const auto& part : {ObjectCases(), DeletionCases(), ListCases(), WatchCases(), PatchCases(),
                           ApplyCases(), SubresourceCases(), ConflictCases(), OwnershipCases(),
                           DryRunCases(), RevisionCases(), ScaleCases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<std::string> RunConformanceCase(const ConformanceCase& one,
                                            const ConformanceTarget& target) {
  static std::atomic<int> next{0};
  const std::string ns = absl::StrCat(target.prefix, "-", next.fetch_add(1));
  Run run(target, ns);
  std::vector<std::string> failures = run.Do(absl::StrCat(
      "> POST /api/v1/namespaces\n{\"metadata\":{\"name\":\"", ns, "\"}}\n= 201\n", one.script));
  Run(target, ns).Do(absl::StrCat("> DELETE /api/v1/namespaces/", ns));
  return failures;
}

}  // namespace capstan::kube::testing
