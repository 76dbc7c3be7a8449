#include "services/node_agent/shim/shim_command.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <utility>

#include "absl/status/statusor.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "services/node_agent/shim/shim.h"
#include "services/node_agent/shim/task_process.h"
#include "services/node_agent/shim/visit.h"

namespace capstan::node_agent {
namespace {

// A machine that needs longer to make a few mounts would not start Tasks either.
constexpr int kProbeMs = 10000;
// A uid that owns nothing; what matters is whether it can be taken.
constexpr int64_t kNobody = 65534;

int Probe(const std::string& folder) {
  capstan::nodeagent::v1::ShimSpec spec;
  spec.set_namespaces(true);
  spec.set_user_namespace(geteuid() != 0);
  if (geteuid() == 0) spec.set_unix_uid(kNobody);
  absl::StatusOr<TaskProcess> task = TaskProcess::Fork(spec, cgroup::Paths(), folder);
  if (!task.ok()) {
    fprintf(stderr, "%s\n", std::string(task.status().message()).c_str());
    return kProbeNothing;
  }
  pollfd reports{task->report_fd(), POLLIN, 0};
  poll(&reports, 1, kProbeMs);
  const absl::optional<InitReport> report = task->ReadReport();
  const bool ready = report.has_value() && report->kind == InitReport::kReady;
  if (!ready) fprintf(stderr, "%s\n", report.has_value() ? report->text : "no answer");
  task->KillInit();
  while (!task->Reap()) {
    pollfd process{task->process_fd(), POLLIN, 0};
    poll(&process, 1, -1);
  }
  return ready ? kProbeIsolates : kProbeNothing;
}

}  // namespace

int RunShimCommand(const std::vector<std::string>& arguments, const Clock& clock) {
  if (arguments.size() == 1) return RunShim(arguments[0], clock);
  if (arguments.size() == 2 && arguments[0] == "--probe") return Probe(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "--visit") return RunVisit(arguments[1]);
  fprintf(stderr,
          "usage: shim <folder of a Task>\n"
          "       shim --probe <empty folder>\n"
          "       shim --visit <folder of a Task>\n");
  return 2;
}

}  // namespace capstan::node_agent
