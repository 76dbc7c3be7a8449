#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_LINE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_LINE_H_

#include <string>

#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

struct LogLineStyle {
  // Begin with the rank, `[2] `, each in a colour of its own.
  bool rank = true;
  // Begin with the time of day at which the Task wrote the line.
  bool time = false;
};

// One record of a Job's log, without its end. A gap is shown as a line of its own.
std::string FormatLogLine(const telemetry::v1::Record& record, const LogLineStyle& style,
                          const Terminal& terminal);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_LINE_H_
