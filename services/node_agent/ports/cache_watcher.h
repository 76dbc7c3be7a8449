#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_CACHE_WATCHER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_CACHE_WATCHER_H_

#include <cstdint>
#include <string>

namespace capstan::node_agent {

// Is told what a Node's cache holds. Keys are `<collection>/<hex of the manifest digest>`. Called
// on any thread; must not block for long.
class CacheWatcher {
 public:
  virtual ~CacheWatcher() = default;

  // Content is on its way; nothing is said to be there until Advanced does.
  virtual void Growing(const std::string& key, int64_t total_bytes) = 0;
  // Its first bytes, so many, are there and will not change; less than before if a file of it has
  // to come again.
  virtual void Advanced(const std::string& key, int64_t have_bytes) = 0;
  virtual void Whole(const std::string& key, int64_t total_bytes) = 0;
  // It has left, or does not come for now.
  virtual void Gone(const std::string& key) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_CACHE_WATCHER_H_
