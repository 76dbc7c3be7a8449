#ifndef CAPSTAN_LIBS_TRACE_OTLP_SENDER_H_
#define CAPSTAN_LIBS_TRACE_OTLP_SENDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/strand/strand.h"
#include "libs/trace/exporter.h"

namespace capstan::trace {

// Sends by OTLP over gRPC to `address`, `host:port`; dials on first use. `authorities`: those of
// the receiver's certificate, in PEM; absent: plaintext. The strand must outlive the sender.
Exporter::Send MakeOtlpSender(const std::string& address,
                              const absl::optional<std::string>& authorities, Strand* strand);

}  // namespace capstan::trace

#endif  // CAPSTAN_LIBS_TRACE_OTLP_SENDER_H_
