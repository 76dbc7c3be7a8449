#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_TRACE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_TRACE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "libs/metrics/registry.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "libs/trace/tracing.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

// One run of the command as a span: every call that it makes is its child, and what these cause is
// in its trace. It continues the trace that the environment names in TRACEPARENT, or begins one.
// Spans go where the platform in `data_dir` sends its own; without that, or without a platform, the
// trace is only carried on.
class CommandTrace {
 public:
  // `command` without the program's name, `job submit`. `traceparent` may be null. Before channels
  // are dialled and threads made; one in a process. `invocation` must outlive it.
  CommandTrace(const std::string& command, const char* traceparent, const Invocation& invocation);
  ~CommandTrace();
  CommandTrace(const CommandTrace&) = delete;
  CommandTrace& operator=(const CommandTrace&) = delete;

  // The command is over. Waits for its spans to be sent, at most a second.
  void End(const absl::Status& status);

  const trace::Context& context() const { return span_.context; }

 private:
  metrics::Registry registry_{"cli"};
  std::unique_ptr<trace::Tracing> tracing_;
  trace::Span span_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_TRACE_H_
