#ifndef CAPSTAN_INTEGRATION_SECRETS_TEXTS_H_
#define CAPSTAN_INTEGRATION_SECRETS_TEXTS_H_

#include <fstream>
#include <sstream>
#include <string>

namespace capstan::integration {

// A whole file; empty if it can't be read.
inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  // Unlike iterators, this does not throw where a process ends while it is read.
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// What lies between the first `begin` and the `end` behind it; empty without a `begin`.
inline std::string Between(const std::string& text, const std::string& begin,
                           const std::string& end) {
  const size_t at = text.find(begin);
  if (at == std::string::npos) return "";
  const size_t first = at + begin.size();
  return text.substr(first, text.find(end, first) - first);
}

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_SECRETS_TEXTS_H_
