#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_COMMIT_REQUEST_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_COMMIT_REQUEST_H_

#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "services/node_agent/ports/data_access.h"

namespace capstan::node_agent {

// Without a staging folder, which only a loader that shares it can use.
inline capstan::dataloader::v1::CommitOutputRequest CommitRequestOf(const OutputCommit& commit) {
  capstan::dataloader::v1::CommitOutputRequest request;
  request.set_name(commit.output);
  request.set_job_uid(commit.job_uid);
  request.set_generation(commit.generation);
  request.set_rank(commit.rank);
  if (commit.checkpoint) {
    request.set_checkpoint_step(commit.step);
  } else {
    request.set_final(true);
  }
  return request;
}

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_COMMIT_REQUEST_H_
