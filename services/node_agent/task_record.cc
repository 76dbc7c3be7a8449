#include "services/node_agent/task_record.h"

#include "absl/strings/str_cat.h"

namespace capstan::node_agent {

using capstan::telemetry::v1::Record;

Record MakeTaskRecord(const session::TaskId& id, int32_t rank, const std::string& producer,
                      const char* kind, int64_t sequence) {
  Record record;
  record.set_key(absl::StrCat(id.generation, "/", id.group, "-", id.index));
  record.set_kind(kind);
  record.set_producer(absl::StrCat(producer, "/", id.Path()));
  record.set_producer_sequence(sequence);
  auto& attributes = *record.mutable_attributes();
  attributes["generation"] = absl::StrCat(id.generation);
  attributes["group"] = id.group;
  attributes["index"] = absl::StrCat(id.index);
  attributes["rank"] = absl::StrCat(rank);
  return record;
}

}  // namespace capstan::node_agent
