#ifndef CAPSTAN_LIBS_KUBE_CONFIG_ENVIRONMENT_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_ENVIRONMENT_H_

#include <cstddef>
#include <map>
#include <string>

namespace capstan::kube {

// What a main reads of its surroundings and passes on: nothing here asks for it itself.
struct Environment {
  // By name.
  std::map<std::string, std::string> variables;
  // The person's home folder; empty if there is none.
  std::string home;
  // Below which a Pod's files are; other than "/" in tests only.
  std::string root = "/";

  // Empty if it is not set.
  std::string Variable(const std::string& name) const {
    const auto it = variables.find(name);
    return it == variables.end() ? std::string() : it->second;
  }
};

// Of main's third parameter: `name=value` each, ended by null; the home is HOME.
inline Environment EnvironmentOf(const char* const* variables) {
  Environment environment;
  for (; *variables != nullptr; ++variables) {
    const std::string variable = *variables;
    const size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    environment.variables.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  environment.home = environment.Variable("HOME");
  return environment;
}

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_ENVIRONMENT_H_
