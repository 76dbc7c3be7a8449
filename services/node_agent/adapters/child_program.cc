#include "services/node_agent/adapters/child_program.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <unistd.h>

namespace capstan::node_agent {
namespace {

constexpr int kExecFailed = 127;

}  // namespace

void BecomeProgram(char* const* argv, int passed, int as) {
  // dup2 onto itself would keep the close-on-exec flag.
  if (passed == as) {
    fcntl(passed, F_SETFD, 0);
  } else {
    dup2(passed, as);
  }
  close_range(as + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (chdir("/") != 0) _exit(kExecFailed);
  char* const no_environment[] = {nullptr};
  execve(argv[0], argv, no_environment);
  _exit(kExecFailed);
}

}  // namespace capstan::node_agent
