#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CHILD_PROGRAM_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CHILD_PROGRAM_H_

namespace capstan::node_agent {

// Turns a forked child into the program `argv[0]` (an absolute path), with standard streams as they
// are, `passed` as descriptor `as` and none above it, every signal at its default and none blocked,
// in `/`, without an environment; one that cannot ends with 127. Only async-signal-safe calls,
// since other threads' locks may be held for ever.
[[noreturn]] void BecomeProgram(char* const* argv, int passed, int as);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CHILD_PROGRAM_H_
