// What a Task tries to get at another Task and at the platform; for tests.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_INTRUSION_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_INTRUSION_H_

#include <string>
#include <vector>

#include "libs/safe_path/safe_path.h"

namespace capstan::node_agent {

// A Python program that prints `<attempt> allowed` or `<attempt> refused` for each thing a Task
// must not be able to do. Reads VICTIM_PID, SHIM_PID, VICTIM_FOLDER and DATA (the platform's data
// folder, with ca.key, which says PRIVATE, and scheduler.db) from its environment.
extern const char kIntrusion[];

// The lines a Task has printed, both streams.
std::vector<std::string> LogLines(const std::string& folder);

// Fails the test unless everything was tried and nothing allowed.
void ExpectAllRefused(const std::vector<std::string>& lines);

// A socket that listens in a Task's folder, as the agent's for it does.
UniqueFd ListenInTaskFolder(const std::string& folder);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_INTRUSION_H_
