#include "services/data_loader/adapters/open_source.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/adapters/file_source.h"
#include "services/data_loader/adapters/http_source.h"

namespace capstan::data_loader {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);

// Waits on the load's own thread; looks at `stop` now and then.
void Pause(absl::Duration pause, const std::atomic<bool>& stop) {
  const auto stopped = [&stop] { return stop.load(); };
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  for (; pause > absl::ZeroDuration() && !stop; pause -= kLook) {
    mutex.AwaitWithTimeout(absl::Condition(&stopped), std::min(pause, kLook));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataSource(
    const std::string& uri, const std::vector<std::string>& allowed_roots, const HttpOptions& http,
    const std::atomic<bool>& stop) {
  if (absl::StartsWith(uri, "http://") || absl::StartsWith(uri, "https://")) {
    // Only the pauses' jitter comes from it: loads of other sources differ.
    const uint64_t seed = std::hash<std::string>()(uri);
    return OpenHttpSource(
        uri, &http, &stop, [&stop](absl::Duration pause) { Pause(pause, stop); }, seed);
  }
  CAPSTAN_ASSIGN_OR_RETURN(FileSource source, FileSource::Open(uri, allowed_roots));
  return std::unique_ptr<DataSource>(std::make_unique<FileSource>(std::move(source)));
}

}  // namespace capstan::data_loader
