#include "tools/capstan/cli/data_show.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/call.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "tools/capstan/cli/follow_stream.h"
#include "tools/capstan/cli/human_format.h"

namespace capstan::cli {
namespace {

using dataloader::v1::DataLoad;
using dataloader::v1::DataLoadService;
using dataloader::v1::GetDataLoadRequest;
using dataloader::v1::ListDataLoadsRequest;
using dataloader::v1::ListDataLoadsResponse;
using scheduler::v1::Job;
using Async = DataLoadService::StubInterface::async_interface;

// A person does not read the progress of more.
constexpr size_t kMaxLoads = 16;
constexpr absl::Duration kListTimeOut = absl::Seconds(5);

}  // namespace

absl::Status FollowLoad(CommandLoop* loop, Platform* platform, const std::string& name,
                        std::function<void(const DataLoad&)> on_load,
                        std::function<void(const absl::Status&)> on_over) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("data_loader"));
  GetDataLoadRequest request;
  request.set_name(name);
  FollowCallbacks<GetDataLoadRequest, DataLoad> callbacks;
  callbacks.on_message = [on_load = std::move(on_load), on_over](const DataLoad& load,
                                                                 GetDataLoadRequest*) {
    on_load(load);
    if (!IsFinal(load)) return true;
    on_over(absl::OkStatus());
    return false;
  };
  callbacks.on_over = std::move(on_over);
  FollowStream(loop, std::shared_ptr<DataLoadService::Stub>(DataLoadService::NewStub(channel)),
               &Async::WatchDataLoad, std::move(request), std::move(callbacks));
  return absl::OkStatus();
}

DataShow::DataShow(CommandLoop* loop, Platform* platform, LiveLines* lines,
                   const Terminal& terminal, std::function<void()> on_settled)
    : loop_(loop),
      platform_(platform),
      lines_(lines),
      terminal_(terminal),
      on_settled_(std::move(on_settled)) {}

void DataShow::OnJob(const Job& job) {
  since_ = ToTime(job.create_time());
  for (const std::string& load : job.data_progress().data_loads()) Follow(load);
  for (const auto& mount : job.spec().datasets()) {
    if (!found_[mount.dataset()] && asking_ == 0) Find(mount.dataset());
  }
}

void DataShow::Find(const std::string& dataset) {
  const auto channel = platform_->Channel("data_loader");
  if (!channel.ok()) return;
  ++asking_;
  ListDataLoadsRequest request;
  request.set_parent(dataset.substr(0, dataset.find("/datasets/")));
  const std::shared_ptr<DataLoadService::Stub> stub = DataLoadService::NewStub(*channel);
  loop_->CallOpened();
  rpc::CallUnary(stub.get(), &Async::ListDataLoads, std::move(request), {.deadline = kListTimeOut},
                 loop_->strand(),
                 [this, stub, dataset, loop = loop_](absl::StatusOr<ListDataLoadsResponse> loads) {
                   loop->CallClosed();
                   if (loop->done()) return;
                   --asking_;
                   if (loads.ok()) {
                     for (const DataLoad& load : loads->data_loads()) {
                       if (load.dataset() != dataset || found_[dataset]) continue;
                       found_[dataset] = true;
                       Follow(load.name());
                     }
                   }
                   MaybeSettled();
                 });
}

void DataShow::Follow(const std::string& name) {
  if (loads_.count(name) > 0 || loads_.size() >= kMaxLoads) return;
  loads_.emplace(name, LoadLines(terminal_));
  ++loading_;
  const absl::Status begun = FollowLoad(
      loop_, platform_, name, [this](const DataLoad& load) { Show(load); },
      [this, name](const absl::Status&) {
        lines_->Show(name, "");
        --loading_;
        MaybeSettled();
      });
  if (!begun.ok()) --loading_;
}

void DataShow::Show(const DataLoad& load) {
  found_[load.dataset()] = true;
  const auto it = loads_.find(load.name());
  if (it == loads_.end()) return;
  const LoadLines::Shown shown = it->second.OnLoad(load, loop_->clock()->Read().boot, since_);
  for (const std::string& line : shown.lines) lines_->Print(line);
  lines_->Show(load.name(), shown.live);
}

void DataShow::MaybeSettled() {
  if (settled()) on_settled_();
}

}  // namespace capstan::cli
