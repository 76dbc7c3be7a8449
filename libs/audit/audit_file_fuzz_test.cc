// A chain as somebody left it on a disk: bytes of any kind are read or refused, and no change to a
// chain whose head is known goes unseen.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/audit/audit_file.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "proto/capstan/event/v1/audit.pb.h"

namespace {

using capstan::audit::ChainHead;
using capstan::audit::VerifyChain;
using capstan::event::v1::AuditRecord;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;

constexpr char kChain[] = "scheduler";

void CheckBytes(absl::string_view bytes) {
  int64_t visited = 0;
  const auto content =
      VerifyChain(bytes, kChain, absl::nullopt, [&visited](const AuditRecord&) { ++visited; });
  if (!content.ok()) return;
  Require(content->head.sequence == visited && content->head.hash.size() == 32);
  Require(content->valid_bytes >= 0 && content->torn_bytes >= 0);
  Require(content->valid_bytes + content->torn_bytes == static_cast<int64_t>(bytes.size()));
}

// A whole chain of a few records with anything in them, then one change to it.
void CheckChange(FuzzInput* input) {
  std::string bytes;
  ChainHead head;
  for (size_t records = 1 + input->Below(4); records > 0; --records) {
    auto record = capstan::fuzzing::MakeMessage<AuditRecord>({"act", "alice", ""}, input);
    record.set_chain(kChain);
    record.set_sequence(head.sequence + 1);
    record.set_previous_hash(head.hash);
    const auto encoded = capstan::audit::EncodeRecord(record);
    bytes += encoded.frame;
    head = {record.sequence(), encoded.hash};
  }
  const auto ignore = [](const AuditRecord&) {};
  const auto whole = VerifyChain(bytes, kChain, head, ignore);
  Require(whole.ok() && whole->head == head && whole->torn_bytes == 0);

  const size_t at = (input->Byte() * 256 + input->Byte()) % bytes.size();
  if (input->Flag()) {
    bytes[at] = static_cast<char>(bytes[at] ^ (1 + input->Below(255)));
  } else {
    bytes.resize(at);
  }
  Require(!VerifyChain(bytes, kChain, head, ignore).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  if (input.Flag()) {
    CheckBytes(input.Rest());
  } else {
    CheckChange(&input);
  }
  return 0;
}
