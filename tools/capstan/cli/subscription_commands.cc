#include "tools/capstan/cli/subscription_commands.h"

#include <ostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "proto/capstan/telemetry/v1/subscription.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/follow_stream.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using telemetry::v1::AcknowledgeRequest;
using telemetry::v1::CreateSubscriptionRequest;
using telemetry::v1::DeleteSubscriptionRequest;
using telemetry::v1::GetSubscriptionRequest;
using telemetry::v1::ListSubscriptionsRequest;
using telemetry::v1::Record;
using telemetry::v1::SeekSubscriptionRequest;
using telemetry::v1::SubscribeRequest;
using telemetry::v1::SubscribeResponse;
using telemetry::v1::Subscription;
using telemetry::v1::SubscriptionService;

// What a record says. A payload that is not text is only counted.
std::string Saying(const Record& record) {
  if (record.kind() == "job_event") {
    event::v1::JobEvent event;
    if (event.ParseFromString(record.payload())) {
      return absl::StrCat(event.state(), " ", event.reason(), " ", event.message());
    }
  }
  if (record.kind() == "gap") {
    event::v1::GapRecord gap;
    if (gap.ParseFromString(record.payload())) {
      return absl::StrCat(gap.dropped_records(), " records are gone: ", gap.reason());
    }
  }
  if (record.kind() == "log") return std::string(absl::StripSuffix(record.payload(), "\n"));
  return absl::StrCat(record.payload().size(), " bytes");
}

std::string Reader(const Subscription& subscription) {
  return subscription.reading() ? "connected" : "none";
}

std::string Describe(const Subscription& shown) {
  std::string text =
      absl::StrCat("Name:          ", shown.name(), "\nStream:        ", shown.stream(),
                   "\nAcknowledged:  ", shown.acknowledged_offset(),
                   "\nLag:           ", shown.lag_records(), " records\nKept:          ");
  if (shown.first_kept_offset() <= shown.last_offset()) {
    absl::StrAppend(&text, shown.first_kept_offset(), " to ", shown.last_offset(), "\n");
  } else {
    absl::StrAppend(&text, "nothing\n");
  }
  if (shown.beyond_end()) {
    absl::StrAppend(&text,
                    "Beyond end:    the Stream's files are gone or of an older copy than the "
                    "cursor; `capstan subscription seek --oldest` reads what is there\n");
  }
  if (shown.lost_records() > 0) {
    absl::StrAppend(&text, "Lost:          ", shown.lost_records(),
                    " records were dropped before they were acknowledged; `capstan subscription "
                    "seek` goes on behind them\n");
  }
  return absl::StrCat(text, "Reader:        ", Reader(shown), "\n");
}

std::string NameOf(const std::string& subscription, const Invocation& invocation) {
  return InProject(invocation.project, "subscriptions", subscription);
}

absl::Status Acknowledge(SubscriptionService::Stub* stub, const std::string& name, int64_t offset,
                         int64_t generation, const Invocation& invocation) {
  AcknowledgeRequest request;
  request.set_name(name);
  request.set_offset(offset);
  request.set_reader_generation(generation);
  return Call(stub, &SubscriptionService::Stub::Acknowledge, request, Terms(invocation)).status();
}

// OK once everything is written down.
absl::Status Print(const SubscribeResponse& response, int64_t* printed, Invocation& invocation) {
  for (const Record& record : response.records()) {
    // What was printed before the stream was lost, and not acknowledged yet, comes again.
    if (record.offset() <= *printed) continue;
    *printed = record.offset();
    *invocation.out << (invocation.output.format == OutputFormat::kTable
                            ? RecordLine(record)
                            : RenderChange(invocation, record))
                    << "\n";
  }
  invocation.out->flush();
  if (invocation.out->good()) return absl::OkStatus();
  return status::Error(absl::StatusCode::kDataLoss, "NOT_WRITTEN",
                       "standard output does not take more: nothing of this was acknowledged");
}

}  // namespace

std::string StreamName(const std::string& project, const std::string& text) {
  if (absl::StrContains(text, "streams/")) return text;
  const size_t slash = text.find('/');
  const std::string job = text.substr(0, slash);
  const std::string kind = slash == std::string::npos ? "log" : text.substr(slash + 1);
  return absl::StrCat(ProjectParent(project), "/jobs/", job, "/streams/", kind);
}

std::string RecordLine(const Record& record) {
  return absl::StrCat(
      record.offset(), " ",
      absl::FormatTime(absl::RFC3339_sec, ToTime(record.event_time()), absl::UTCTimeZone()), " ",
      WithoutControls(record.kind()), " ", WithoutControls(Saying(record)));
}

absl::Status CreateSubscription(const CreateSubscriptionOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto service,
                           Connect<SubscriptionService>(invocation, "telemetry"));
  CreateSubscriptionRequest request;
  request.set_parent(ProjectParent(invocation.project));
  request.set_subscription_id(options.id);
  request.set_stream(StreamName(invocation.project, options.stream));
  request.set_position(options.from == "newest" ? telemetry::v1::CURSOR_POSITION_NEWEST
                                                : telemetry::v1::CURSOR_POSITION_OLDEST);
  request.set_request_id(invocation.random->Uuid4());
  CAPSTAN_ASSIGN_OR_RETURN(const Subscription made,
                           Call(service.stub.get(), &SubscriptionService::Stub::CreateSubscription,
                                request, Terms(invocation)));
  return PrintResource<Subscription>(invocation, made, [](const Subscription& shown) {
    return absl::StrCat(shown.name(), " created; it begins behind offset ",
                        shown.acknowledged_offset(), "\n");
  });
}

absl::Status ListSubscriptions(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto service,
                           Connect<SubscriptionService>(invocation, "telemetry"));
  ListSubscriptionsRequest request;
  request.set_parent(ProjectParent(invocation.project));
  CAPSTAN_ASSIGN_OR_RETURN(const auto found,
                           Call(service.stub.get(), &SubscriptionService::Stub::ListSubscriptions,
                                request, Terms(invocation)));
  const absl::Time now = invocation.clock->Read().wall;
  return PrintList<Subscription>(
      invocation, "subscriptions", found.subscriptions(),
      {{"NAME", [](const Subscription& one) { return LastSegment(one.name()); }},
       {"STREAM",
        [](const Subscription& one) {
          const size_t jobs = one.stream().find("/jobs/");
          return jobs == std::string::npos ? one.stream() : one.stream().substr(jobs + 6);
        }},
       {"ACKNOWLEDGED",
        [](const Subscription& one) { return absl::StrCat(one.acknowledged_offset()); }},
       {"LAG", [](const Subscription& one) { return absl::StrCat(one.lag_records()); }},
       {"LOST", [](const Subscription& one) { return absl::StrCat(one.lost_records()); }},
       {"READER", Reader},
       {"AGE", [now](const Subscription& one) { return HumanAge(ToTime(one.create_time()), now); }},
       {"KEPT",
        [](const Subscription& one) {
          return absl::StrCat(one.first_kept_offset(), "-", one.last_offset());
        },
        /*wide=*/true}});
}

absl::Status GetSubscription(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto service,
                           Connect<SubscriptionService>(invocation, "telemetry"));
  GetSubscriptionRequest request;
  request.set_name(NameOf(name, invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const Subscription found,
                           Call(service.stub.get(), &SubscriptionService::Stub::GetSubscription,
                                request, Terms(invocation)));
  return PrintResource<Subscription>(invocation, found, Describe);
}

absl::Status DeleteSubscription(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto service,
                           Connect<SubscriptionService>(invocation, "telemetry"));
  DeleteSubscriptionRequest request;
  request.set_name(NameOf(name, invocation));
  return Call(service.stub.get(), &SubscriptionService::Stub::DeleteSubscription, request,
              Terms(invocation))
      .status();
}

absl::Status ReadSubscription(const ReadSubscriptionOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto service,
                           Connect<SubscriptionService>(invocation, "telemetry"));
  SubscribeRequest request;
  request.set_name(NameOf(options.subscription, invocation));
  request.set_follow(options.follow);
  CommandLoop loop(invocation.clock, invocation.random);
  int64_t printed = 0;
  FollowCallbacks<SubscribeRequest, SubscribeResponse> callbacks;
  // Each message is acknowledged before the next is read.
  callbacks.on_message = [&](const SubscribeResponse& response, SubscribeRequest* again) {
    if (response.records().empty()) return true;
    absl::Status done = Print(response, &printed, invocation);
    if (done.ok() && !options.no_commit) {
      done = Acknowledge(service.stub.get(), again->name(),
                         response.records(response.records_size() - 1).offset(),
                         response.reader_generation(), invocation);
    }
    if (!done.ok()) loop.Done(done);
    return done.ok();
  };
  callbacks.on_over = [&loop](const absl::Status& over) { loop.Done(over); };
  callbacks.reopen_ended = options.follow;
  return loop.Run([&] {
    FollowStream(&loop, service.stub,
                 &SubscriptionService::StubInterface::async_interface::Subscribe, request,
                 std::move(callbacks));
  });
}

absl::Status CommitSubscription(const std::string& name, int64_t offset, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto service,
                           Connect<SubscriptionService>(invocation, "telemetry"));
  return Acknowledge(service.stub.get(), NameOf(name, invocation), offset, /*generation=*/0,
                     invocation);
}

absl::Status SeekSubscription(const SeekSubscriptionOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto service,
                           Connect<SubscriptionService>(invocation, "telemetry"));
  SeekSubscriptionRequest request;
  request.set_name(NameOf(options.subscription, invocation));
  request.set_next_offset(options.to);
  if (options.oldest) request.set_position(telemetry::v1::CURSOR_POSITION_OLDEST);
  if (options.newest) request.set_position(telemetry::v1::CURSOR_POSITION_NEWEST);
  CAPSTAN_ASSIGN_OR_RETURN(const Subscription moved,
                           Call(service.stub.get(), &SubscriptionService::Stub::SeekSubscription,
                                request, Terms(invocation)));
  return PrintResource<Subscription>(invocation, moved, Describe);
}

}  // namespace capstan::cli
