#ifndef CAPSTAN_LIBS_KUBE_CONFIG_ENVIRONMENT_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_ENVIRONMENT_H_

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

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_ENVIRONMENT_H_
