#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/node.grpc.pb.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/demand_text.h"
#include "tools/capstan/cli/fleet_commands.h"
#include "tools/capstan/cli/follow_stream.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using scheduler::v1::NodeService;
using scheduler::v1::UnmetDemand;
using scheduler::v1::WatchDemandRequest;
using scheduler::v1::WatchDemandResponse;

std::string ForPeople(const Invocation& invocation, const UnmetDemand& demand) {
  return DescribeDemand(demand, invocation.clock->Read().wall, invocation.output,
                        invocation.out_terminal);
}

void PrintChange(const Invocation& invocation, const UnmetDemand& demand, bool first) {
  if (invocation.output.format != OutputFormat::kTable) {
    *invocation.out << RenderChange(invocation, demand) << std::endl;
    return;
  }
  if (!first) *invocation.out << "\n";
  *invocation.out << ForPeople(invocation, demand) << std::flush;
}

}  // namespace

absl::Status ShowDemand(const ShowDemandOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("scheduler"));
  WatchDemandRequest request;
  request.set_parent(absl::StrCat("clusters/", LastSegment(options.cluster)));
  CommandLoop loop(invocation.clock, invocation.random);
  UnmetDemand newest;
  bool first = true;
  const absl::Status over = loop.Run([&] {
    FollowCallbacks<WatchDemandRequest, WatchDemandResponse> callbacks;
    callbacks.on_message = [&](const WatchDemandResponse& response, WatchDemandRequest*) {
      if (options.watch) {
        PrintChange(invocation, response.demand(), first);
        first = false;
        return true;
      }
      newest = response.demand();
      loop.Done(absl::OkStatus());
      return false;
    };
    callbacks.on_over = [&](const absl::Status& why) { loop.Done(why); };
    if (!options.watch) {
      loop.strand()->RunAfter(invocation.time_out, [&loop] {
        loop.Done(status::Error(absl::StatusCode::kDeadlineExceeded, "NO_ANSWER",
                                "the scheduler says nothing"));
      });
    }
    FollowStream(&loop, std::shared_ptr<NodeService::Stub>(NodeService::NewStub(channel)),
                 &NodeService::StubInterface::async_interface::WatchDemand, std::move(request),
                 std::move(callbacks));
  });
  if (!over.ok() || options.watch) return over;
  return PrintResource<UnmetDemand>(
      invocation, newest, [&](const UnmetDemand& demand) { return ForPeople(invocation, demand); });
}

}  // namespace capstan::cli
