// The first process of a Task: pid 1 of its PID namespace where it has one. It prepares the
// namespaces, gives up its rights, starts the program, reaps what the program leaves behind, and
// ends when the program does, upon which the kernel ends everything else in the namespace.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_TASK_INIT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_TASK_INIT_H_

#include <cstdint>
#include <string>

#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

// What init says to its shim, through a pipe; small enough to be written at once.
struct InitReport {
  enum Kind : int32_t {
    // Everything is in place; waits for the shim's word.
    kReady = 1,
    // Preparing, or exec, failed; `text` says how.
    kFailed = 2,
    // The program has ended with wait status `value`.
    kEnded = 3,
  };
  Kind kind;
  int32_t value;
  char text[1024];
};

// The shim's words to init. An end of file instead of either means that the shim is dead.
inline constexpr char kUserNamespaceMapped = 'm';
inline constexpr char kStartProgram = 's';

// Ends of pipes that init inherits.
struct InitPipes {
  // Reads the shim's words.
  int words = -1;
  // Writes InitReports.
  int reports = -1;
  // Standard output and error of the program.
  int out = -1;
  int err = -1;
};

// Runs in the forked child until the Task ends. `root` is an empty folder for the private root.
[[noreturn]] void RunTaskInit(const capstan::nodeagent::v1::ShimSpec& spec, const std::string& root,
                              InitPipes pipes);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_TASK_INIT_H_
