// What the commands on Datasets, DataLoads and Outputs do.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

struct CreateDatasetOptions {
  std::string id;
  // `file:///…/`, or a folder here.
  std::string source;
  std::vector<std::string> objects;
};
absl::Status CreateDataset(const CreateDatasetOptions& options, Invocation& invocation);
absl::Status ListDatasets(Invocation& invocation);
absl::Status GetDataset(const std::string& name, Invocation& invocation);

absl::Status ListLoads(Invocation& invocation);
// With `watch`, until it has ended; fails if the load failed.
absl::Status GetLoad(const std::string& name, bool watch, Invocation& invocation);

struct StartLoadOptions {
  std::string dataset;
  // Id of a version; empty means the newest.
  std::string version;
  // Cluster that must reach the data; empty means any.
  std::string cluster;
  // Start one that has failed again.
  bool retry_failed = false;
  bool watch = false;
};
// Has a Dataset brought to a Site, unless it is there or on its way.
absl::Status StartLoad(const StartLoadOptions& options, Invocation& invocation);

absl::Status GetBundle(const std::string& name, Invocation& invocation);

// For people, in one line.
std::string DescribeBundle(const dataloader::v1::Bundle& bundle);

// The Output of a Job.
absl::StatusOr<dataloader::v1::Output> FetchOutput(const std::string& job, Invocation& invocation);
absl::Status ShowOutput(const std::string& job, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_COMMANDS_H_
