#include "integration/simulation/dataset_sources.h"

#include <cstddef>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"

namespace capstan::simulation {

int64_t DatasetSources::Content::total_bytes() const {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0});
}

void DatasetSources::Replace(const std::string& uri, int most) {
  Content& content = contents_[uri];
  ++content.revision;
  content.parts.assign(static_cast<size_t>(world_->random().Between(int64_t{1}, int64_t{most})),
                       kPartBytes);
  world_->Log("source", absl::StrCat(uri, " holds revision ", content.revision, " of ",
                                     content.total_bytes(), " bytes"));
}

const DatasetSources::Content* DatasetSources::Find(const std::string& uri) const {
  const auto away = away_.find(uri);
  if (away != away_.end() && away->second) return nullptr;
  const auto content = contents_.find(uri);
  return content == contents_.end() ? nullptr : &content->second;
}

std::string DatasetSources::Digest(const std::string& uri, int64_t revision) {
  return absl::StrCat("sha256:",
                      absl::BytesToHexString(Sha256::Of(absl::StrCat(uri, "@", revision))));
}

}  // namespace capstan::simulation
