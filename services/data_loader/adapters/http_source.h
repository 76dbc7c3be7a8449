#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_SOURCE_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_SOURCE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/data_loader/adapters/http_client.h"
#include "services/data_loader/ports/data_source.h"

namespace capstan::data_loader {

// Objects of a web server, `http://…` or `https://…`. What the URI stands for:
//   …/              the folder of the objects that are asked for, which must be named
//   ….index         a list of objects: see ParseIndex
//   anything else   one object
// An object is known by its ETag, else its Last-Modified, without which, and without a digest in
// the index, it is refused (SOURCE_UNVERIFIABLE). Parts are asked for by range and on the condition
// that the object is the same; every answer's validator, range and size are compared with the plan.
// A server that has no ranges gives objects whole. What was torn is gone on with; 408, 425, 429,
// 500, 502, 503 and 504 are tried again, with growing pauses or as Retry-After says, within the
// options' bounds; everything else is final. Only URLs below the allowed prefixes are asked,
// redirects included, which must not lead from https to http.
//
// Errors besides those of the port: INVALID_URL, INVALID_INDEX, OBJECTS_NEEDED, SIZE_UNKNOWN,
// SOURCE_UNVERIFIABLE, SOURCE_ENCODED, LYING_ANSWER, TOO_MANY_REDIRECTS, HTTP_<status>,
// RETRIES_EXHAUSTED and those of HttpClient.
//
// `options` and `stop` must outlive the source; `pause` waits, shorter once stopped, on any thread.
absl::StatusOr<std::unique_ptr<DataSource>> OpenHttpSource(
    const std::string& uri, const HttpOptions* options, const std::atomic<bool>* stop,
    std::function<void(absl::Duration)> pause, uint64_t seed);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_HTTP_SOURCE_H_
