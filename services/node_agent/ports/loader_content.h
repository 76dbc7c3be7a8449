#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_LOADER_CONTENT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_LOADER_CONTENT_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::node_agent {

// A part of content, of so many bytes in all.
struct ContentRange {
  int64_t offset = 0;
  int64_t length = 0;
  int64_t total = 0;
};

// Moves content between this Node and data_loader's Site. Calls block and are made on threads that
// may; thread-safe. What is read is not checked: the caller compares digests. Errors that another
// attempt may mend are UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL or
// UNKNOWN; NOT_FOUND means that it is not, or no more, to be read.
class LoaderContent {
 public:
  virtual ~LoaderContent() = default;

  virtual absl::StatusOr<capstan::dataloader::v1::Manifest> ReadManifest(
      const capstan::dataloader::v1::ContentRef& content) = 0;
  // Gives `sink` the bytes of the range in order and in pieces. OK only if all came; what came
  // before an error was given. An error of the sink ends the call with it.
  virtual absl::Status Read(const capstan::dataloader::v1::ContentRef& content,
                            const ContentRange& range,
                            absl::FunctionRef<absl::Status(absl::string_view)> sink) = 0;
  // Sends the files of a manifest, which lie in `root`, and commits them.
  virtual absl::StatusOr<capstan::dataloader::v1::CommitOutputResponse> SendOutput(
      const capstan::dataloader::v1::CommitOutputRequest& commit, const SafeRoot& root,
      const capstan::dataloader::v1::Manifest& manifest) = 0;
  // Ends calls under way, and all later ones, with CANCELLED. For the end of the agent.
  virtual void Stop() = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_LOADER_CONTENT_H_
