#include "services/telemetry/core/scrape_targets.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/address/host_port.h"
#include "libs/status/error.h"

namespace capstan::telemetry {
namespace {

constexpr size_t kMaxText = 256;

// What Prometheus can dial from where it is.
bool CanBeDialled(absl::string_view text) {
  const auto parsed = address::ParseHostPort(text);
  return text.size() <= kMaxText && parsed.has_value() && parsed->port != 0 &&
         !address::IsUnspecified(text);
}

}  // namespace

absl::Status CheckReport(const v1::ReportScrapeTargetRequest& request) {
  status::FieldErrors errors;
  if (!CanBeDialled(request.metrics_address())) {
    errors.Add("metrics_address",
               absl::StrCat("is '", absl::CHexEscape(request.metrics_address().substr(0, kMaxText)),
                            "'; expected `host:port` that can be dialled"));
  }
  if (request.instance().size() > kMaxText) {
    errors.Add("instance", absl::StrCat("has more than ", kMaxText, " bytes"));
  }
  for (const char c : request.instance()) {
    if (absl::ascii_isprint(c)) continue;
    errors.Add("instance", "has bytes that are not printable ASCII");
    break;
  }
  if (request.loopback_network().size() > kMaxText) {
    errors.Add("loopback_network", absl::StrCat("has more than ", kMaxText, " bytes"));
  }
  return errors.ToStatus();
}

void ScrapeTargets::Load(const core::ScrapeTargetList& kept, BootTime now) {
  for (const core::ScrapeTarget& target : kept.targets()) {
    if (targets_.size() >= kMaxScrapeTargets) return;
    if (!CanBeDialled(target.metrics_address())) continue;
    targets_[{target.identity_path(), target.instance()}] = {target.metrics_address(), now};
  }
}

absl::StatusOr<bool> ScrapeTargets::Report(const auth::SpiffeId& caller,
                                           const v1::ReportScrapeTargetRequest& request,
                                           BootTime now) {
  const bool is_service = caller.kind == auth::SpiffeId::Kind::kService;
  std::pair<std::string, std::string> key(caller.Path(), is_service ? request.instance() : "");
  const auto it = targets_.find(key);
  if (it != targets_.end()) {
    it->second.reported = now;
    if (it->second.metrics_address == request.metrics_address()) return false;
    it->second.metrics_address = request.metrics_address();
    return true;
  }
  if (targets_.size() >= kMaxScrapeTargets) {
    return status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_TARGETS",
                      absl::StrCat("there are ", kMaxScrapeTargets, " scrape targets already")),
        absl::Minutes(5));
  }
  targets_[std::move(key)] = {request.metrics_address(), now};
  return true;
}

bool ScrapeTargets::Forget(BootTime now) {
  const size_t before = targets_.size();
  for (auto it = targets_.begin(); it != targets_.end();) {
    it = now - it->second.reported >= forget_after_ ? targets_.erase(it) : std::next(it);
  }
  return targets_.size() != before;
}

core::ScrapeTargetList ScrapeTargets::List() const {
  core::ScrapeTargetList list;
  for (const auto& [key, entry] : targets_) {
    core::ScrapeTarget* target = list.add_targets();
    target->set_identity_path(key.first);
    target->set_instance(key.second);
    target->set_metrics_address(entry.metrics_address);
  }
  return list;
}

}  // namespace capstan::telemetry
