#include "libs/trace/otlp.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/variant.h"
#include "proto/opentelemetry/common/v1/common.pb.h"
#include "proto/opentelemetry/trace/v1/trace.pb.h"

namespace capstan::trace {
namespace {

namespace pb = ::opentelemetry::proto::trace::v1;

std::string BigEndian(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 8; i-- > 0; value >>= 8) bytes[i] = static_cast<char>(value & 0xff);
  return bytes;
}

uint64_t Nanoseconds(absl::Time time) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToUnixNanos(time)));
}

void Fill(const Attribute& attribute, opentelemetry::proto::common::v1::KeyValue* out) {
  out->set_key(attribute.key);
  if (const auto* text = absl::get_if<std::string>(&attribute.value)) {
    out->mutable_value()->set_string_value(*text);
  } else if (const auto* number = absl::get_if<int64_t>(&attribute.value)) {
    out->mutable_value()->set_int_value(*number);
  } else {
    out->mutable_value()->set_bool_value(absl::get<bool>(attribute.value));
  }
}

pb::Span::SpanKind KindOf(Kind kind) {
  switch (kind) {
    case Kind::kServer:
      return pb::Span::SPAN_KIND_SERVER;
    case Kind::kClient:
      return pb::Span::SPAN_KIND_CLIENT;
    case Kind::kInternal:
      break;
  }
  return pb::Span::SPAN_KIND_INTERNAL;
}

void Fill(const Span& span, pb::Span* out) {
  out->set_trace_id(BigEndian(span.context.trace_high) + BigEndian(span.context.trace_low));
  out->set_span_id(BigEndian(span.context.span));
  if (span.parent != 0) out->set_parent_span_id(BigEndian(span.parent));
  out->set_name(span.name);
  out->set_kind(KindOf(span.kind));
  out->set_start_time_unix_nano(Nanoseconds(span.begin));
  // A wall clock may have been set back meanwhile.
  out->set_end_time_unix_nano(Nanoseconds(std::max(span.begin, span.end)));
  for (const Attribute& attribute : span.attributes) Fill(attribute, out->add_attributes());
  if (span.failed) {
    out->mutable_status()->set_code(pb::Status::STATUS_CODE_ERROR);
    out->mutable_status()->set_message(span.error);
  }
  out->set_flags(span.context.sampled ? 1 : 0);
}

}  // namespace

opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const std::vector<Span>& spans, const std::vector<Attribute>& resource) {
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest request;
  pb::ResourceSpans* of_process = request.add_resource_spans();
  for (const Attribute& attribute : resource) {
    Fill(attribute, of_process->mutable_resource()->add_attributes());
  }
  pb::ScopeSpans* scope = of_process->add_scope_spans();
  scope->mutable_scope()->set_name("capstan");
  for (const Span& span : spans) Fill(span, scope->add_spans());
  return request;
}

}  // namespace capstan::trace
