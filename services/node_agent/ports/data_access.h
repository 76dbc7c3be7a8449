#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_DATA_ACCESS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_DATA_ACCESS_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// A Task's output folder, to be committed.
struct OutputCommit {
  // `projects/{p}/jobs/{j}/output`.
  std::string output;
  std::string job_uid;
  int64_t generation = 0;
  int32_t rank = 0;
  // The final output if false; else the checkpoint of `step`.
  bool checkpoint = false;
  int64_t step = 0;
  // Absolute, below the staging root.
  std::string directory;
};

// What the agent asks of data_loader, and where the Node has what it gives. Every call is
// idempotent and answered within a minute, commits within an hour; what takes longer to bring is
// answered with UNAVAILABLE (reason DATA_ON_ITS_WAY) and how far it is, to be asked for again.
// Methods do not block; callbacks run on the agent's strand.
class DataAccess {
 public:
  template <typename T>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;
  using DoneCallback = absl::AnyInvocable<void(absl::Status)>;

  virtual ~DataAccess() = default;

  // Opens the Job's Output at a generation. FAILED_PRECONDITION (GENERATION_SUPERSEDED) if a higher
  // one is open.
  virtual void OpenOutput(const std::string& output, const std::string& job_uid, int64_t generation,
                          Callback<OpenedOutput> done) = 0;
  // Where a Bundle's files lie, pinned for the holder.
  virtual void PinBundle(const std::string& bundle, const std::string& holder,
                         Callback<std::string> done) = 0;
  // Where a version's files lie, pinned for the holder.
  virtual void PinVersion(const std::string& version, const std::string& holder,
                          Callback<std::string> done) = 0;
  // Digest of the committed manifest.
  virtual void CommitOutput(const OutputCommit& commit, Callback<std::string> done) = 0;
  virtual void ReleasePins(const std::string& holder, DoneCallback done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_DATA_ACCESS_H_
