#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_LOAD_WORKER_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_LOAD_WORKER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libs/safe_path/safe_path.h"
#include "services/data_loader/adapters/http_client.h"
#include "services/data_loader/adapters/part_copier.h"
#include "services/data_loader/core/loader_core.h"
#include "services/data_loader/ports/site.h"

namespace capstan::data_loader {

// How a load is carried out.
struct LoadOptions {
  // Folders below which `file://` sources may lie.
  std::vector<std::string> allowed_source_roots;
  int64_t part_bytes = 8 << 20;
  CopyOptions copy;
  // How `http://` and `https://` sources are read.
  HttpOptions http;
};

// What a load tells and asks while it runs; called on the load's own threads, serially.
struct LoadListener {
  // Whether there is room; may block. An error ends the load with it.
  absl::FunctionRef<absl::Status(int64_t total_bytes)> planned;
  absl::FunctionRef<void(int64_t loaded_bytes, int64_t source_bytes_read)> progressed;
  absl::FunctionRef<void()> publishing;
};

// Brings a Dataset's files to `<site>/versions/<digest>`; blocks until it is done.
//
// 1. The plan: what the source holds, with a validator for each object. It is stored in
//    `staging/loads/<id>/` before the first byte is copied; a plan that is there is kept. It is
//    asked whether there is room for it.
// 2. The parts: copied in parallel to their place in the staged files, which are hashed as they
//    grow, from what is read back of them. A part is journalled once its bytes are durable; parts
//    in the journal are not fetched again, but read back and hashed (part_copier.h).
// 3. The check: every object must still be the one planned.
// 4. The manifest: of the files that are staged, which must be those planned, with their sizes, and
//    of the digests of what they hold. A digest that the source promises must be that of the file.
// 5. Publishing: files are made read-only and synced, and the folder is renamed to its digest, so a
//    reader sees the whole version or none. A version that is there already is left as it is.
//
// On an error that a repeated attempt can't mend the staged files are removed. `stop` ends the load
// early with CANCELLED, leaving what was staged to be taken up again. What is noted of a version
// that was published stays too, so that the same load, run again, finds it and reads nothing: the
// caller removes LoadFolder once it has stored what came of the load.
absl::StatusOr<Published> RunLoad(const SafeRoot& site, const StartLoad& load,
                                  const LoadOptions& options, const LoadListener& listener,
                                  const std::atomic<bool>& stop);

// Of what a load has staged and noted, relative to the Site.
std::string LoadFolder(const std::string& load);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_LOAD_WORKER_H_
