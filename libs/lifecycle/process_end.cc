#include "libs/lifecycle/process_end.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "absl/debugging/failure_signal_handler.h"
#include "absl/debugging/symbolize.h"

namespace capstan::lifecycle {

void EndProcess(int code) {
  // The streams of C++ keep nothing of their own.
  std::fflush(nullptr);
  _exit(code);
}

void ReportCrashes(const char* program) {
  absl::InitializeSymbolizer(program);
  // Being asked to end is no crash, though Abseil counts it as one.
  struct sigaction asked_to_end;
  sigaction(SIGTERM, nullptr, &asked_to_end);
  absl::InstallFailureSignalHandler(absl::FailureSignalHandlerOptions());
  sigaction(SIGTERM, &asked_to_end, nullptr);
}

void ForbidCores() {
  // Not 0: with that Linux still gives the core to a program, if core_pattern names one; 1 ends it
  // before (fs/coredump.c), and is too small for a file.
  const rlimit none = {1, 1};
  setrlimit(RLIMIT_CORE, &none);
}

}  // namespace capstan::lifecycle
