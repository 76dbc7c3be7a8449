#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_READER_CHECK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_READER_CHECK_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "proto/capstan/dataloader/v1/content.pb.h"

namespace capstan::node_agent {

// Asks data_loader whether another Node may read content that this one has.
class ReaderCheck {
 public:
  virtual ~ReaderCheck() = default;

  // `reader` is `clusters/{c}/nodes/{n}`. OK, NOT_FOUND, or that it can't be asked. Thread-safe;
  // `done` is called once, on a thread of its own choice, or never if the agent ends.
  virtual void Check(const std::string& reader, const capstan::dataloader::v1::ContentRef& content,
                     absl::AnyInvocable<void(absl::Status)> done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_READER_CHECK_H_
