// Whether a configuration makes sense, before anything is started with it. Every function adds what
// it finds to `errors`, with the field's path.
#ifndef CAPSTAN_LIBS_PROCESS_CHECK_H_
#define CAPSTAN_LIBS_PROCESS_CHECK_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "libs/process/process.h"
#include "libs/status/error.h"
#include "proto/capstan/config/v1/observation.pb.h"
#include "proto/capstan/config/v1/process.pb.h"

namespace capstan::process {

// `listens` is false for a process without a server.
void CheckProcess(const config::v1::Process& config, const Kind& kind, bool listens,
                  status::FieldErrors* errors);

// A service that must be named.
void CheckPeer(absl::string_view field, const config::v1::Peer& peer, status::FieldErrors* errors);

// `host:port`; port 0 means a free one where `may_choose`.
void CheckAddress(absl::string_view field, absl::string_view address, bool may_choose,
                  status::FieldErrors* errors);

// Both bounds are allowed; an unset value is.
void CheckDuration(absl::string_view field, bool present, const google::protobuf::Duration& value,
                   absl::Duration least, absl::Duration most, status::FieldErrors* errors);

// Both bounds are allowed; an unset value is. `unit` is what is counted, e.g. ` bytes`; may be
// empty.
void CheckNumber(absl::string_view field, bool present, int64_t value, int64_t least, int64_t most,
                 absl::string_view unit, status::FieldErrors* errors);

// An absolute path without a `..`.
void CheckAbsolutePath(absl::string_view field, absl::string_view path,
                       status::FieldErrors* errors);

// The same, of a folder that is there.
void CheckExistingFolder(absl::string_view field, absl::string_view path,
                         status::FieldErrors* errors);

// `field` is the path of the message, with which the errors begin.
void CheckAccessLog(absl::string_view field, const config::v1::AccessLog& config,
                    status::FieldErrors* errors);
void CheckTraces(absl::string_view field, const config::v1::Traces& config,
                 status::FieldErrors* errors);

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_CHECK_H_
