#include "integration/kube_bench/bench_options.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace capstan::kube::bench {
namespace {

const std::vector<std::string>& Parts() {
  static const auto* const parts =
      new std::vector<std::string>{"webhook", "informer", "bind", "events", "reconnect"};
  return *parts;
}

}  // namespace

bool BenchOptions::Wants(absl::string_view part) const {
  return std::find(only.begin(), only.end(), part) != only.end();
}

absl::StatusOr<BenchOptions> ParseBenchOptions(const std::vector<std::string>& arguments) {
  BenchOptions options;
  options.only = Parts();
  ClusterLoad& cluster = options.cluster;
  const std::map<std::string, int*> numbers = {{"--nodes", &cluster.nodes},
                                               {"--pods", &cluster.pods},
                                               {"--binds", &cluster.binds},
                                               {"--events", &cluster.events},
                                               {"--runs", &cluster.runs}};
  const std::map<std::string, std::string*> texts = {{"--kubeconfig", &cluster.kubeconfig},
                                                     {"--namespace", &cluster.ns},
                                                     {"--client-go", &cluster.client_go}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--smoke") {
      options.webhook = {200, 4, absl::Seconds(1), 1};
      cluster.nodes = 20;
      cluster.pods = 50;
      cluster.binds = 50;
      cluster.events = 50;
      cluster.runs = 1;
      continue;
    }
    const auto number = numbers.find(name);
    const auto text = texts.find(name);
    if (number == numbers.end() && text == texts.end() && name != "--only") {
      return absl::InvalidArgumentError(absl::StrCat(name, ": no such option"));
    }
    if (++i == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": has no value"));
    }
    const std::string& value = arguments[i];
    if (number != numbers.end()) {
      if (!absl::SimpleAtoi(value, number->second) || *number->second < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": ", value, " is no number of at least 1"));
      }
    } else if (text != texts.end()) {
      *text->second = value;
    } else {
      options.only = absl::StrSplit(value, ',');
      for (const std::string& part : options.only) {
        if (std::find(Parts().begin(), Parts().end(), part) == Parts().end()) {
          return absl::InvalidArgumentError(
              absl::StrCat("--only: ", part, " is none of ", absl::StrJoin(Parts(), ", ")));
        }
      }
    }
  }
  return options;
}

std::string ClientGoOf(const std::string& program) {
  const std::string place = "tools/testenv/bin/client_go";
  std::string beside = absl::StrCat(program, ".runfiles/capstan/", place);
  return std::filesystem::exists(beside) ? beside : std::filesystem::absolute(place).string();
}

}  // namespace capstan::kube::bench
