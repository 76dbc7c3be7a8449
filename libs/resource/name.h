// Resource names (AIP-122): `projects/{project}/jobs/{job}` and so on. Parse takes exactly what
// ToString gives; anything else is INVALID_ARGUMENT with reason INVALID_NAME and the pattern.
#ifndef CAPSTAN_LIBS_RESOURCE_NAME_H_
#define CAPSTAN_LIBS_RESOURCE_NAME_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::resource {

// Splits `name` by `pattern`, whose variables are `{id}` (see IsValidId) or `{hex:…}` (1 to 64
// lower-case hex digits), and returns their values in order.
absl::StatusOr<std::vector<std::string>> ParseName(absl::string_view pattern,
                                                   absl::string_view name);

// Puts values in place of the variables. Does not check them.
std::string FormatName(absl::string_view pattern, std::initializer_list<absl::string_view> values);

struct ProjectName {
  static constexpr char kPattern[] = "projects/{project}";
  std::string project;

  static absl::StatusOr<ProjectName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project}); }
  friend bool operator==(const ProjectName&, const ProjectName&) = default;
};

struct JobName {
  static constexpr char kPattern[] = "projects/{project}/jobs/{job}";
  std::string project;
  std::string job;

  static absl::StatusOr<JobName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project, job}); }
  friend bool operator==(const JobName&, const JobName&) = default;
};

// What the generations of one Job write.
struct OutputName {
  static constexpr char kPattern[] = "projects/{project}/jobs/{job}/output";
  std::string project;
  std::string job;

  static absl::StatusOr<OutputName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project, job}); }
  friend bool operator==(const OutputName&, const OutputName&) = default;
};

// A Stream of one Job: `log`, `events` or `metrics`.
struct JobStreamName {
  static constexpr char kPattern[] = "projects/{project}/jobs/{job}/streams/{stream}";
  std::string project;
  std::string job;
  std::string stream;

  static absl::StatusOr<JobStreamName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project, job, stream}); }
  friend bool operator==(const JobStreamName&, const JobStreamName&) = default;
};

struct MaintenanceWindowName {
  static constexpr char kPattern[] = "clusters/{cluster}/maintenanceWindows/{window}";
  std::string cluster;
  std::string window;

  static absl::StatusOr<MaintenanceWindowName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {cluster, window}); }
  friend bool operator==(const MaintenanceWindowName&, const MaintenanceWindowName&) = default;
};

struct ServiceAccountName {
  static constexpr char kPattern[] = "projects/{project}/serviceAccounts/{account}";
  std::string project;
  std::string account;

  static absl::StatusOr<ServiceAccountName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project, account}); }
  friend bool operator==(const ServiceAccountName&, const ServiceAccountName&) = default;
};

// A binding in a project, or with an empty `project` in the whole trust domain.
struct RoleBindingName {
  static constexpr char kPattern[] = "projects/{project}/roleBindings/{binding}";
  static constexpr char kDomainPattern[] = "roleBindings/{binding}";
  std::string project;
  std::string binding;

  static absl::StatusOr<RoleBindingName> Parse(absl::string_view name);
  std::string ToString() const;
  friend bool operator==(const RoleBindingName&, const RoleBindingName&) = default;
};

struct DatasetName {
  static constexpr char kPattern[] = "projects/{project}/datasets/{dataset}";
  std::string project;
  std::string dataset;

  static absl::StatusOr<DatasetName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project, dataset}); }
  friend bool operator==(const DatasetName&, const DatasetName&) = default;
};

struct DatasetVersionName {
  static constexpr char kPattern[] = "projects/{project}/datasets/{dataset}/versions/{hex:version}";
  std::string project;
  std::string dataset;
  std::string version;

  static absl::StatusOr<DatasetVersionName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project, dataset, version}); }
  friend bool operator==(const DatasetVersionName&, const DatasetVersionName&) = default;
};

struct DataLoadName {
  static constexpr char kPattern[] = "projects/{project}/dataLoads/{load}";
  std::string project;
  std::string load;

  static absl::StatusOr<DataLoadName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project, load}); }
  friend bool operator==(const DataLoadName&, const DataLoadName&) = default;
};

// `digest` is the hex of the manifest's SHA-256.
struct BundleName {
  static constexpr char kPattern[] = "projects/{project}/bundles/{hex:digest}";
  std::string project;
  std::string digest;

  static absl::StatusOr<BundleName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {project, digest}); }
  friend bool operator==(const BundleName&, const BundleName&) = default;
};

struct QueueName {
  static constexpr char kPattern[] = "queues/{queue}";
  std::string queue;

  static absl::StatusOr<QueueName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {queue}); }
  friend bool operator==(const QueueName&, const QueueName&) = default;
};

struct CapacityOrderName {
  static constexpr char kPattern[] = "capacityOrders/{order}";
  std::string order;

  static absl::StatusOr<CapacityOrderName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {order}); }
  friend bool operator==(const CapacityOrderName&, const CapacityOrderName&) = default;
};

struct SiteName {
  static constexpr char kPattern[] = "sites/{site}";
  std::string site;

  static absl::StatusOr<SiteName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {site}); }
  friend bool operator==(const SiteName&, const SiteName&) = default;
};

struct ClusterName {
  static constexpr char kPattern[] = "clusters/{cluster}";
  std::string cluster;

  static absl::StatusOr<ClusterName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {cluster}); }
  friend bool operator==(const ClusterName&, const ClusterName&) = default;
};

struct NodeName {
  static constexpr char kPattern[] = "clusters/{cluster}/nodes/{node}";
  std::string cluster;
  std::string node;

  static absl::StatusOr<NodeName> Parse(absl::string_view name);
  std::string ToString() const { return FormatName(kPattern, {cluster, node}); }
  friend bool operator==(const NodeName&, const NodeName&) = default;
};

}  // namespace capstan::resource

#endif  // CAPSTAN_LIBS_RESOURCE_NAME_H_
