#include "tools/capstan/cli/maintenance_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libs/resource/quantity.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using scheduler::v1::MaintenanceWindow;

absl::Status Invalid(const std::string& message) {
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_MAINTENANCE", message);
}

std::string TimeInWords(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<absl::Time> ParseWhen(const std::string& text, absl::Time now) {
  absl::Time time;
  std::string ignored;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &ignored)) return time;
  const absl::StatusOr<absl::Duration> from_now = resource::ParseDuration(text);
  if (from_now.ok()) return now + *from_now;
  return Invalid(absl::StrCat("found '", WithoutControls(text),
                              "', expected a time such as 2026-03-01T22:00:00Z, or how long from "
                              "now, such as 2h"));
}

absl::StatusOr<MaintenanceWindow> WindowOf(const MaintenanceOptions& options, absl::Time now) {
  MaintenanceWindow window;
  const std::string cluster = LastSegment(options.cluster);
  for (const std::string& node : options.nodes) {
    window.add_nodes(absl::StrContains(node, "/")
                         ? NodeResource(node)
                         : absl::StrCat("clusters/", cluster, "/nodes/", node));
  }
  for (const std::string& label : options.labels) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(label, absl::MaxSplits('=', 1));
    if (parts.first.empty() || !absl::StrContains(label, "=")) {
      return Invalid(absl::StrCat("found label '", WithoutControls(label),
                                  "', expected KEY=VALUE, e.g. capstan.dev/rack=r1"));
    }
    (*window.mutable_node_labels())[parts.first] = parts.second;
  }
  window.set_all_nodes(options.all_nodes);
  absl::Time start = now;
  if (!options.start.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(start, ParseWhen(options.start, now));
    *window.mutable_start_time() = ToProto(start);
  }
  if (options.end.empty() == (options.length == absl::ZeroDuration())) {
    return Invalid("expected one of --end TIME and --for DURATION");
  }
  absl::Time end = start + options.length;
  if (!options.end.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(end, ParseWhen(options.end, now));
  }
  *window.mutable_end_time() = ToProto(end);
  window.set_evict(options.evict);
  window.set_reason(options.reason);
  return window;
}

std::string WindowResource(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) {
    return absl::StrCat("clusters/local/maintenanceWindows/", name);
  }
  if (absl::StartsWith(name, "clusters/")) return name;
  return absl::StrCat("clusters/", name.substr(0, slash), "/maintenanceWindows/",
                      name.substr(slash + 1));
}

std::string BeginsInWords(const MaintenanceWindow& window, absl::Time now) {
  const absl::Time start = ToTime(window.start_time());
  if (start > now) return absl::StrCat("in ", HumanDuration(start - now));
  if (ToTime(window.end_time()) <= now) return "over";
  return absl::StrCat("since ", HumanDuration(now - start));
}

std::string NodesInWords(const MaintenanceWindow& window) {
  if (window.all_nodes()) return "all";
  std::vector<std::string> parts;
  for (const std::string& node : window.nodes()) parts.push_back(LastSegment(node));
  if (!window.node_labels().empty()) {
    parts.push_back(absl::StrCat(
        "with ", absl::StrJoin(std::map<std::string, std::string>(window.node_labels().begin(),
                                                                  window.node_labels().end()),
                               " ", absl::PairFormatter("="))));
  }
  return absl::StrJoin(parts, ", ");
}

std::string DescribeWindow(const MaintenanceWindow& window, absl::Time now) {
  std::string out;
  const auto add = [&out](absl::string_view name, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&out, name, WithoutControls(value), "\n");
  };
  add("Name:       ", window.name());
  add("Begins:     ",
      absl::StrCat(TimeInWords(ToTime(window.start_time())), ", ", BeginsInWords(window, now)));
  add("Ends:       ",
      absl::StrCat(TimeInWords(ToTime(window.end_time())), ", after ",
                   HumanDuration(ToTime(window.end_time()) - ToTime(window.start_time()))));
  add("Nodes:      ", absl::StrCat(NodesInWords(window), "; ", window.node_count(), " now"));
  add("Jobs there: ", absl::StrCat(window.job_count()));
  add("What runs:  ", window.evict() ? "is stopped with grace and waits again" : "runs on");
  add("Reason:     ", window.reason());
  add("Made by:    ",
      absl::StrCat(window.creator(), ", ", HumanAge(ToTime(window.create_time()), now), " ago"));
  return out;
}

std::string MaintenanceInWords(const scheduler::v1::Maintenance& maintenance) {
  return absl::StrCat(TimeInWords(ToTime(maintenance.start_time())), " to ",
                      TimeInWords(ToTime(maintenance.end_time())), ": ",
                      maintenance.maintenance_window());
}

}  // namespace capstan::cli
