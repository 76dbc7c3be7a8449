#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_OPEN_SOURCE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_OPEN_SOURCE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/data_loader/adapters/http_client.h"
#include "services/data_loader/ports/data_source.h"

namespace capstan::data_loader {

// Opens what a URI names, by its scheme. `http` and `stop` must outlive the source.
absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(
    const std::string& uri, const std::vector<std::string>& allowed_roots, const HttpOptions& http,
    const std::atomic<bool>& stop);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_OPEN_SOURCE_H_
