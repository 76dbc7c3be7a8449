// What orders of Tasks say of their Placements.
#ifndef CAPSTAN_LIBS_SESSION_PLACEMENT_H_
#define CAPSTAN_LIBS_SESSION_PLACEMENT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/capstan/type/v1/placement_grant.pb.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::session {

// By how much a new grant must be younger to take the place of one that is kept: orders come again
// with every session, each newly signed, and a grant holds for as long as its root does.
inline constexpr absl::Duration kGrantKeptFor = absl::Hours(30 * 24);

// `projects/{p}/bundles/{hex}` of a launch; empty if the Job brings none.
std::string BundleOf(const type::v1::TaskLaunch& launch);
// `projects/{p}/datasets/{d}/versions/{v}`.
std::string VersionOf(const type::v1::DatasetMount& mount);

// How a Placement names a Dataset version: the first 32 hex digits of the SHA-256 of its resource
// name. Nobody finds another name for one that was granted.
std::string VersionDigest(absl::string_view name);

// What the scheduler signs of an order to a Cluster. Unset: trust domain and time.
type::v1::Placement PlacementOf(absl::string_view cluster, const type::v1::DesiredTask& task);

// Gives a newer order about a Task the grant of the one that is known, unless that has none, or is
// older by kGrantKeptFor.
void KeepGrant(const type::v1::DesiredTask& known, type::v1::DesiredTask* newer);

}  // namespace capstan::session

#endif  // CAPSTAN_LIBS_SESSION_PLACEMENT_H_
