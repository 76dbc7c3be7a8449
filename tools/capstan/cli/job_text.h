// Jobs for people.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

bool IsFinal(scheduler::v1::Job::State state);

// `RUNNING`, coloured.
TextTable::Cell JobStateCell(const scheduler::v1::Job& job);

// Columns of `job list`.
std::vector<Column<scheduler::v1::Job>> JobColumns(absl::Time now);

// Everything about a Job on a screen: for `job get`.
std::string DescribeJob(const scheduler::v1::Job& job, absl::Time now, const Terminal& terminal);

// One line on where the Job stands: state, reason, data progress or Tasks by state. For watching.
std::string JobLine(const scheduler::v1::Job& job, absl::Time now, const Terminal& terminal);

// For `job explain`.
std::string DescribeExplanation(const scheduler::v1::ExplainJobResponse& explanation,
                                const Terminal& terminal);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_TEXT_H_
