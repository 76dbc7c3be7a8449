#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_SHOW_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_SHOW_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/live_lines.h"
#include "tools/capstan/cli/load_text.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

// Follows one DataLoad to its end: `on_load` with each state, then `on_over` once, with OK after a
// final one. On the loop's strand.
absl::Status FollowLoad(CommandLoop* loop, Platform* platform, const std::string& name,
                        std::function<void(const dataloader::v1::DataLoad&)> on_load,
                        std::function<void(const absl::Status&)> on_over);

// Shows how the data of a Job comes, from the data_loader itself: the scheduler's figures come too
// late for a short load. What cannot be found out is not shown. On the loop's strand.
class DataShow {
 public:
  // All must outlive it. `on_settled` is called when settled() becomes true.
  DataShow(CommandLoop* loop, Platform* platform, LiveLines* lines, const Terminal& terminal,
           std::function<void()> on_settled);

  // The Job's newest state.
  void OnJob(const scheduler::v1::Job& job);
  // Whether all there is to show of the Job's data has been shown, as far as is known now.
  bool settled() const { return asking_ == 0 && loading_ == 0; }

 private:
  // Asks for the loads of a Dataset; the newest is the one.
  void Find(const std::string& dataset);
  void Follow(const std::string& name);
  void Show(const dataloader::v1::DataLoad& load);
  void MaybeSettled();

  CommandLoop* const loop_;
  Platform* const platform_;
  LiveLines* const lines_;
  const Terminal terminal_;
  const std::function<void()> on_settled_;
  absl::Time since_;
  // By name.
  std::map<std::string, LoadLines> loads_;
  // Datasets of which a load is known.
  std::map<std::string, bool> found_;
  int asking_ = 0;
  int loading_ = 0;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_DATA_SHOW_H_
