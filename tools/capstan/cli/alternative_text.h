#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_ALTERNATIVE_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_ALTERNATIVE_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/cli/v1/alternative_line.pb.h"
#include "proto/capstan/scheduler/v1/simulation_service.pb.h"

namespace capstan::cli {

// Lines of `node simulate`, each written as its answer comes: columns stand below each other though
// none knows the others. No line has control characters but its newline.
class AlternativeText {
 public:
  // All names there will be.
  explicit AlternativeText(const std::vector<std::string>& names);

  std::string Header() const;
  // Of one alternative, whose Jobs are called by what they were read from.
  std::string Line(const v1::AlternativeLine& line, const std::vector<std::string>& jobs) const;
  // The end, once all are told.
  std::string Summary(const scheduler::v1::SimulateChangesResponse& response, absl::Time now) const;

 private:
  std::string Row(const std::vector<std::string>& cells) const;

  size_t name_width_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_ALTERNATIVE_TEXT_H_
