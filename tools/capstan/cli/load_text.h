// DataLoads for people.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_LOAD_TEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_LOAD_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/time/clock.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

bool IsFinal(const dataloader::v1::DataLoad& load);

// `3.1 MiB/s`: the recent rate, or that of the whole load once it is over; empty while unknown.
std::string LoadRate(const dataloader::v1::DataLoad& load);
// `2m5s`; empty while unknown.
std::string LoadEta(const dataloader::v1::DataLoad& load);

// What to show as a load goes on: a line when it begins and one when it is over, whatever came
// between; meanwhile one for each tenth or five seconds, or, on a terminal, a line that is
// rewritten. Pure.
class LoadLines {
 public:
  struct Shown {
    // To be printed.
    std::vector<std::string> lines;
    // To stand at the bottom of a terminal until the next.
    std::string live;
  };

  explicit LoadLines(const Terminal& terminal) : terminal_(terminal) {}

  // The newest state, received at `now`. A load that was over before `since` gets one line.
  Shown OnLoad(const dataloader::v1::DataLoad& load, BootTime now, absl::Time since);

 private:
  const Terminal terminal_;
  bool begun_ = false;
  int64_t tenth_ = 0;
  BootTime printed_;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_LOAD_TEXT_H_
