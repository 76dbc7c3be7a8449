// What is asked of Streams, subscriptions and the archive: what is accepted keeps to the bounds, a
// Stream's name is a safe path, and a cursor never goes back unless its reader says so.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/telemetry/v1/archive.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/core/archive_query.h"
#include "services/telemetry/core/producer_index.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/core/stream_rules.h"
#include "services/telemetry/core/subscription_book.h"
#include "services/telemetry/core/subscription_rules.h"

namespace capstan::telemetry {
namespace {

using core::SubscriptionRecord;
using fuzzing::FuzzInput;
using fuzzing::MakeMessage;
using fuzzing::Require;

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{"projects/p",
                                                           "projects/p/jobs/j/streams/events",
                                                           "projects/p/jobs/j/streams/log",
                                                           "projects/p/subscriptions/s",
                                                           "projects/p/subscriptions/t",
                                                           "s",
                                                           "t",
                                                           "projects/p/jobs/j",
                                                           "streams/audit",
                                                           "log",
                                                           "producer",
                                                           "state=FAILED AND labels.a=b",
                                                           ""};
  return words;
}

void CheckAccepted(const v1::AppendRecordsRequest& append) {
  if (!CheckAppend(append).ok()) return;
  Require(CheckRelativePath(append.stream()).ok() && IsStreamName(append.stream()));
  Require(append.records_size() <= kMaxAppendRecords);
  for (const v1::Record& record : append.records()) {
    Require(record.producer_sequence() >= 1 && !record.kind().empty() &&
            !record.producer().empty() && record.attributes_size() <= kMaxAttributes);
    // Nobody can forge what stands for what retention has dropped.
    Require(!IsRetentionGap(record));
  }
}

void CheckManyStreams(FuzzInput* input) {
  const auto request = MakeMessage<v1::AppendToStreamsRequest>(Words(), input);
  if (!CheckAppendToStreams(request).ok()) return;
  Require(request.appends_size() <= kMaxAppends);
  std::set<std::string> streams;
  for (const v1::AppendRecordsRequest& append : request.appends()) {
    Require(streams.insert(append.stream()).second);
    CheckAccepted(append);
  }
}

void CheckStreams(FuzzInput* input) {
  const auto append = MakeMessage<v1::AppendRecordsRequest>(Words(), input);
  CheckAccepted(append);
  const auto read = MakeMessage<v1::ReadRecordsRequest>(Words(), input);
  if (CheckRead(read).ok()) {
    Require(read.start_offset() >= 0 && read.tail() >= 0);
    for (const v1::Record& record : append.records()) (void)Matches(record, read);
  }
}

void CheckArchived(FuzzInput* input) {
  const auto archive = MakeMessage<v1::ArchiveJobsRequest>(Words(), input);
  if (CheckArchive(archive).ok()) {
    Require(archive.jobs_size() >= 1 && archive.jobs_size() <= kMaxArchivedJobs);
    for (const auto& job : archive.jobs()) {
      Require(absl::StartsWith(job.name(), ProjectOfJob(job.name()) + "/jobs/"));
    }
  }
  (void)CheckList(MakeMessage<v1::ListArchivedJobsRequest>(Words(), input));
  (void)CheckGet(MakeMessage<v1::GetArchivedJobRequest>(Words(), input));
}

void CheckProducers(FuzzInput* input) {
  ProducerIndex index;
  index.Load(MakeMessage<core::StreamHeader>(Words(), input));
  for (int i = 0; i < 10 && !input->empty(); ++i) {
    const std::string producer = input->Word(Words());
    const std::string key = input->Word(Words());
    const int64_t sequence = input->Number();
    if (!index.IsNew(producer, key, sequence)) continue;
    index.Advance(producer, key, sequence);
    Require(!index.IsNew(producer, key, sequence));
  }
  ProducerIndex again;
  again.Load(index.ToHeader());
  Require(again.size() == index.size() && index.size() <= ProducerIndex::kMaxProducers);
  Require(index.ToHeader().ByteSizeLong() <= ProducerIndex::kMaxBytes);
}

// A record as the store may hold it, whoever wrote it there; then what readers ask for.
void CheckSubscriptions(FuzzInput* input) {
  SubscriptionBook book({.of_one_project = 2, .subscriptions = 3});
  StreamExtent extent;
  if (input->Flag()) {
    auto record = MakeMessage<SubscriptionRecord>(Words(), input);
    // Others are not read from the store.
    if (!IsCursor(record.acknowledged_offset())) return;
    (void)CheckCursor(record, extent);
    (void)ToSubscription(record, extent, false);
    record.set_acknowledged_offset(0);
    book.Put(std::move(record));
  }
  for (int i = 0; i < 30 && !input->empty(); ++i) {
    // A Stream only grows, and loses at its beginning.
    extent.next += static_cast<int64_t>(input->Below(4));
    extent.first += static_cast<int64_t>(
        input->Below(static_cast<size_t>(std::min<int64_t>(extent.next - extent.first, 3)) + 1));
    switch (input->Below(4)) {
      case 0: {
        const auto request = MakeMessage<v1::CreateSubscriptionRequest>(Words(), input);
        if (!CheckCreateSubscription(request).ok()) break;
        const auto made = book.Create(request, 0, extent, absl::FromUnixSeconds(1));
        if (!made.ok()) break;
        // Of its own project alone.
        Require(absl::StartsWith(made->stream(), ParentOfSubscription(made->name()) + "/"));
        book.Put(*made);
        break;
      }
      case 1: {
        const auto admitted = book.Admit(input->Word(Words()), extent);
        if (admitted.ok()) book.Put(*admitted);
        break;
      }
      case 2: {
        const auto request = MakeMessage<v1::AcknowledgeRequest>(Words(), input);
        if (!CheckAcknowledge(request).ok()) break;
        const auto record = book.Acknowledge(request, extent);
        if (!record.ok()) break;
        Require(record->acknowledged_offset() >= book.Find(record->name())->acknowledged_offset());
        Require(record->acknowledged_offset() < extent.next);
        book.Put(*record);
        break;
      }
      default: {
        const auto request = MakeMessage<v1::SeekSubscriptionRequest>(Words(), input);
        if (!CheckSeekSubscription(request).ok()) break;
        const auto record = book.Seek(request, extent);
        if (!record.ok()) break;
        Require(CheckCursor(*record, extent).ok());
        book.Put(*record);
      }
    }
    Require(book.size() <= 4);
  }
}

}  // namespace
}  // namespace capstan::telemetry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace telemetry = capstan::telemetry;
  capstan::fuzzing::FuzzInput input(data, size);
  switch (input.Below(5)) {
    case 0:
      telemetry::CheckStreams(&input);
      // Of what is left, so that what was found before stays what it was.
      telemetry::CheckManyStreams(&input);
      break;
    case 1:
      telemetry::CheckArchived(&input);
      break;
    case 2:
      telemetry::CheckProducers(&input);
      break;
    case 3:
      telemetry::CheckSubscriptions(&input);
      break;
    default: {
      std::string text(input.Rest());
      // Proto strings are UTF-8 by contract.
      for (char& byte : text) byte = static_cast<char>(byte & 0x7f);
      if (telemetry::IsStreamName(text)) {
        capstan::fuzzing::Require(capstan::CheckRelativePath(text).ok());
      }
      (void)telemetry::ParseArchiveFilter(text);
    }
  }
  return 0;
}
