#include "libs/store/service_records.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "libs/status/error.h"
#include "libs/store/record.h"

namespace capstan::store {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// 0 for a message that does not say.
int SchemaOf(const Message& record) {
  for (const char* name : {"schema_version", "schema"}) {
    const FieldDescriptor* field = record.GetDescriptor()->FindFieldByName(name);
    if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      return record.GetReflection()->GetInt32(record, field);
    }
  }
  return 0;
}

bool IsOf(const ServiceRecords::Kind& kind, absl::string_view rest) {
  return absl::EndsWith(kind.prefix, "/")
             ? absl::StartsWith(rest, kind.prefix) && rest.size() > kind.prefix.size()
             : rest == kind.prefix;
}

}  // namespace

absl::Status CheckStoredRecord(const ServiceRecords& service, absl::string_view key,
                               absl::string_view value) {
  absl::string_view rest = key;
  const std::string prefix = absl::StrCat("/capstan/", service.service, "/v", service.schema, "/");
  const bool known_prefix = absl::ConsumePrefix(&rest, prefix);
  for (const ServiceRecords::Kind& kind : service.kinds) {
    if (!known_prefix || !IsOf(kind, rest)) continue;
    if (kind.prototype == nullptr) return absl::OkStatus();
    const std::unique_ptr<Message> record(kind.prototype->New());
    if (!record->ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      return CorruptRecord(key);
    }
    return CheckRecordSchema(key, SchemaOf(*record), service.schema);
  }
  return status::Error(absl::StatusCode::kDataLoss, "RECORD_CORRUPT",
                       absl::StrCat("the key '", key, "' is none of ", service.service, "'s"),
                       {{"key", std::string(key)}});
}

}  // namespace capstan::store
