#ifndef CAPSTAN_LIBS_TRACE_OTLP_H_
#define CAPSTAN_LIBS_TRACE_OTLP_H_

#include <vector>

#include "libs/trace/span.h"
#include "proto/opentelemetry/collector/trace/v1/trace_service.pb.h"

namespace capstan::trace {

// Spans as OTLP has them. `resource` says what process they are of (`service.name`, …).
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const std::vector<Span>& spans, const std::vector<Attribute>& resource);

}  // namespace capstan::trace

#endif  // CAPSTAN_LIBS_TRACE_OTLP_H_
