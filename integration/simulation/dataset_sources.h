#ifndef CAPSTAN_INTEGRATION_SIMULATION_DATASET_SOURCES_H_
#define CAPSTAN_INTEGRATION_SIMULATION_DATASET_SOURCES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "integration/simulation/world.h"

namespace capstan::simulation {

// What lies at the sources of Datasets, which is not Capstan's: their owners replace it, take it
// away and bring it back.
class DatasetSources {
 public:
  struct Content {
    // Raised when it is replaced.
    int64_t revision = 0;
    // Sizes of the parts in which it is read.
    std::vector<int64_t> parts;

    int64_t total_bytes() const;
  };
  static constexpr int64_t kPartBytes = 10;

  explicit DatasetSources(World* world) : world_(world) {}

  // Other content, of one to `most` parts; also where there is none yet.
  void Replace(const std::string& uri, int most);
  void TakeAway(const std::string& uri) { away_[uri] = true; }
  void BringBack(const std::string& uri) { away_[uri] = false; }

  // Null if nothing is there.
  const Content* Find(const std::string& uri) const;
  // `sha256:…` of the manifest.
  static std::string Digest(const std::string& uri, int64_t revision);

 private:
  World* const world_;
  std::map<std::string, Content> contents_;
  std::map<std::string, bool> away_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_DATASET_SOURCES_H_
