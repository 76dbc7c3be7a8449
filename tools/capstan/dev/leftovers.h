#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_LEFTOVERS_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_LEFTOVERS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace capstan::dev {

// Stops parts that outlived their supervisor, in the order of stopping: gracefully, then by force
// after `bound` each. Needs the folder's lock. `keep_tasks` as in `dev down`. Returns the names of
// those that were found running.
std::vector<std::string> StopLeftovers(const std::string& data_dir, bool keep_tasks,
                                       absl::Duration task_bound, absl::Duration part_bound);

// Sockets and pid files of a former run, and the platform's tree of cgroups, if no Task is left in
// it.
void RemoveRunFiles(const std::string& data_dir);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_LEFTOVERS_H_
