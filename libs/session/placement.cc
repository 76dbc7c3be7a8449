#include "libs/session/placement.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/digest/sha256.h"
#include "libs/time/proto_time.h"

namespace capstan::session {
namespace {

using type::v1::DesiredTask;
using type::v1::Placement;
using type::v1::PlacementGrant;

// `projects/{p}` of `projects/{p}/jobs/{j}`.
absl::string_view ProjectOf(absl::string_view job) { return job.substr(0, job.find("/jobs/")); }

absl::Time SignTimeOf(const PlacementGrant& grant) {
  Placement placement;
  if (!placement.ParseFromString(grant.placement())) return absl::InfinitePast();
  return ToTime(placement.sign_time());
}

}  // namespace

std::string BundleOf(const type::v1::TaskLaunch& launch) {
  if (launch.bundle().empty()) return "";
  return absl::StrCat(ProjectOf(launch.job()), "/bundles/",
                      absl::StripPrefix(launch.bundle(), "sha256:"));
}

std::string VersionOf(const type::v1::DatasetMount& mount) {
  if (absl::StrContains(mount.version(), '/')) return mount.version();
  return absl::StrCat(mount.dataset(), "/versions/", mount.version());
}

std::string VersionDigest(absl::string_view name) {
  return absl::BytesToHexString(Sha256::Of(name)).substr(0, 32);
}

Placement PlacementOf(absl::string_view cluster, const DesiredTask& task) {
  const type::v1::TaskLaunch& launch = task.launch();
  Placement placement;
  placement.set_cluster(std::string(cluster));
  placement.set_node(task.node());
  placement.set_job(launch.job());
  placement.set_job_uid(task.key().job_uid());
  placement.set_generation(task.key().generation());
  placement.set_group(task.key().group());
  placement.set_index(task.key().index());
  placement.set_service_account(launch.service_account());
  placement.set_bundle(BundleOf(launch));
  for (const type::v1::DatasetMount& mount : launch.datasets()) {
    placement.add_versions(VersionDigest(VersionOf(mount)));
  }
  placement.set_output(launch.output());
  return placement;
}

void KeepGrant(const DesiredTask& known, DesiredTask* newer) {
  if (!known.has_grant()) return;
  if (newer->has_grant() &&
      SignTimeOf(newer->grant()) - SignTimeOf(known.grant()) >= kGrantKeptFor) {
    return;
  }
  *newer->mutable_grant() = known.grant();
}

}  // namespace capstan::session
