#include <signal.h>

#include "examples/kube_controller/pod_sets.h"
#include "libs/kube/config/environment.h"
#include "libs/lifecycle/signal_thread.h"
#include "libs/log/spdlog_sink.h"
#include "libs/time/system_clock.h"

int main(int /*argc*/, char** /*argv*/, char** variables) {
  absl::Notification stop;
  // Before any other thread: they inherit that the signals are blocked.
  const auto signals = capstan::lifecycle::SignalThread::Create({SIGTERM, SIGINT}, [&stop](int) {
    if (!stop.HasBeenNotified()) stop.Notify();
  });
  const capstan::SystemClock clock;
  const auto sink = capstan::log::MakeStderrSink(capstan::log::Format::kHuman);
  const capstan::log::Logger log("kube_controller", &clock, sink.get());
  const auto connection = capstan::kube::Connection::Open(capstan::kube::EnvironmentOf(variables),
                                                          {}, {.log = log}, &clock);
  absl::Status status = connection.status();
  if (status.ok()) status = capstan::examples::RunPodSets(connection->get(), log, stop);
  if (!status.ok()) log.Error("ended", {{"error", status}});
  return status.ok() ? 0 : 1;
}
