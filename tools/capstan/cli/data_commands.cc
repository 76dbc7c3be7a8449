#include "tools/capstan/cli/data_commands.h"

#include <climits>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/dataloader/v1/bundle.grpc.pb.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/data_show.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/live_lines.h"
#include "tools/capstan/cli/load_text.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using dataloader::v1::CreateDatasetRequest;
using dataloader::v1::DataLoad;
using dataloader::v1::DataLoadService;
using dataloader::v1::Dataset;
using dataloader::v1::DatasetService;
using dataloader::v1::GetDataLoadRequest;
using dataloader::v1::GetOutputRequest;
using dataloader::v1::ListDataLoadsRequest;
using dataloader::v1::ListDatasetsRequest;
using dataloader::v1::Output;
using dataloader::v1::OutputService;

// A platform and a stub of one of the data_loader's services.
template <typename Service>
struct Connection {
  std::unique_ptr<Platform> platform;
  std::unique_ptr<typename Service::Stub> stub;
};

template <typename Service>
absl::StatusOr<Connection<Service>> Connect(const Invocation& invocation) {
  Connection<Service> connection;
  CAPSTAN_ASSIGN_OR_RETURN(connection.platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, connection.platform->Channel("data_loader"));
  connection.stub = Service::NewStub(channel);
  return connection;
}

absl::StatusOr<std::string> SourceUri(const std::string& source) {
  if (absl::StrContains(source, "://")) return source;
  char resolved[PATH_MAX];
  if (realpath(source.c_str(), resolved) == nullptr) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_SUCH_SOURCE",
                         absl::StrCat("'", source, "' is neither a URI nor a folder here"),
                         {{"source", source}});
  }
  return absl::StrCat("file://", resolved, "/");
}

std::vector<Column<DataLoad>> LoadColumns() {
  return {
      {"NAME", [](const DataLoad& load) { return LastSegment(load.name()); }},
      {"DATASET", [](const DataLoad& load) { return LastSegment(load.dataset()); }},
      {"SITE", [](const DataLoad& load) { return LastSegment(load.site()); }},
      {"STATE",
       [](const DataLoad& load) {
         return ShortEnum(DataLoad::State_Name(load.state()), "STATE_");
       }},
      {"DONE",
       [](const DataLoad& load) { return Percent(load.loaded_bytes(), load.total_bytes()); }},
      {"SIZE", [](const DataLoad& load) { return HumanBytes(load.total_bytes()); }},
      {"RATE", LoadRate},
      {"ETA", LoadEta},
      {"REASON", [](const DataLoad& load) { return load.reason(); }},
  };
}

std::string DescribeLoad(const DataLoad& load) {
  std::string line = absl::StrCat(
      load.name(), " ", ShortEnum(DataLoad::State_Name(load.state()), "STATE_"), " ",
      Percent(load.loaded_bytes(), load.total_bytes()), " of ", HumanBytes(load.total_bytes()));
  if (!LoadRate(load).empty()) absl::StrAppend(&line, ", ", LoadRate(load));
  if (!LoadEta(load).empty()) absl::StrAppend(&line, ", ETA ", LoadEta(load));
  if (!load.reason().empty()) absl::StrAppend(&line, ", ", load.reason());
  if (!load.message().empty()) absl::StrAppend(&line, " - ", load.message());
  return absl::StrCat(WithoutControls(line), "\n");
}

std::string DescribeOutput(const Output& output, const Terminal& terminal) {
  std::string text = absl::StrCat(output.name(), ", generation ", output.generation(), "\n");
  TextTable table({"WHAT", "GEN", "SIZE", "DIRECTORY"});
  for (const auto& checkpoint : output.checkpoints()) {
    table.AddRow({absl::StrCat("checkpoint ", checkpoint.step()),
                  absl::StrCat(checkpoint.generation()), HumanBytes(checkpoint.total_bytes()),
                  checkpoint.directory()});
  }
  for (const auto& task : output.task_outputs()) {
    table.AddRow({absl::StrCat("output of rank ", task.rank()), absl::StrCat(task.generation()),
                  HumanBytes(task.total_bytes()), task.directory()});
  }
  return table.empty() ? absl::StrCat(text, "nothing is committed\n")
                       : absl::StrCat(text, table.Render(terminal));
}

absl::Status WatchLoad(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  LiveLines lines(invocation.out, invocation.out_terminal);
  LoadLines text(invocation.out_terminal);
  DataLoad last;
  const auto on_load = [&](const DataLoad& load) {
    last = load;
    if (invocation.format != OutputFormat::kTable) {
      PrintResource<DataLoad>(invocation, load, DescribeLoad);
      invocation.out->flush();
      return;
    }
    const auto shown = text.OnLoad(load, invocation.clock->Read().boot, absl::InfinitePast());
    for (const std::string& line : shown.lines) lines.Print(line);
    lines.Show(name, shown.live);
  };
  CommandLoop loop(invocation.clock, invocation.random);
  CAPSTAN_RETURN_IF_ERROR(loop.Run([&] {
    const absl::Status begun = FollowLoad(&loop, platform.get(), name, on_load,
                                          [&](const absl::Status& over) { loop.Done(over); });
    if (!begun.ok()) loop.Done(begun);
  }));
  return last.state() == DataLoad::STATE_FAILED ? Failed(last.message()) : absl::OkStatus();
}

}  // namespace

absl::Status CreateDataset(const CreateDatasetOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string uri, SourceUri(options.source));
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<DatasetService>(invocation));
  CreateDatasetRequest request;
  request.set_parent(ProjectParent(invocation.project));
  request.set_dataset_id(options.id);
  request.set_request_id(invocation.random->Uuid4());
  request.mutable_dataset()->set_source_uri(uri);
  for (const std::string& object : options.objects) {
    request.mutable_dataset()->add_objects(object);
  }
  CAPSTAN_ASSIGN_OR_RETURN(const Dataset dataset,
                           Call(connection.stub.get(), &DatasetService::Stub::CreateDataset,
                                request, Terms(invocation)));
  PrintResource<Dataset>(invocation, dataset, [](const Dataset& made) {
    return absl::StrCat(made.name(), " created\n");
  });
  return absl::OkStatus();
}

absl::Status ListDatasets(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<DatasetService>(invocation));
  ListDatasetsRequest request;
  request.set_parent(ProjectParent(invocation.project));
  std::vector<Dataset> all;
  do {
    CAPSTAN_ASSIGN_OR_RETURN(
        auto page, Call(connection.stub.get(), &DatasetService::Stub::ListDatasets, request,
                        Terms(invocation)));
    for (Dataset& dataset : *page.mutable_datasets()) all.push_back(std::move(dataset));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  const absl::Time now = invocation.clock->Read().wall;
  PrintList<Dataset>(
      invocation, "datasets", all,
      {{"NAME", [](const Dataset& dataset) { return LastSegment(dataset.name()); }},
       {"SOURCE", [](const Dataset& dataset) { return dataset.source_uri(); }},
       {"LATEST", [](const Dataset& dataset) { return LastSegment(dataset.latest_version()); }},
       {"AGE",
        [now](const Dataset& dataset) { return HumanAge(ToTime(dataset.create_time()), now); }}});
  return absl::OkStatus();
}

absl::Status ListLoads(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<DataLoadService>(invocation));
  ListDataLoadsRequest request;
  request.set_parent(ProjectParent(invocation.project));
  std::vector<DataLoad> all;
  do {
    CAPSTAN_ASSIGN_OR_RETURN(
        auto page, Call(connection.stub.get(), &DataLoadService::Stub::ListDataLoads, request,
                        Terms(invocation)));
    for (DataLoad& load : *page.mutable_data_loads()) all.push_back(std::move(load));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  PrintList<DataLoad>(invocation, "data_loads", all, LoadColumns());
  return absl::OkStatus();
}

absl::Status GetLoad(const std::string& name, bool watch, Invocation& invocation) {
  const std::string whole = InProject(invocation.project, "dataLoads", name);
  if (watch) return WatchLoad(whole, invocation);
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<DataLoadService>(invocation));
  GetDataLoadRequest request;
  request.set_name(whole);
  CAPSTAN_ASSIGN_OR_RETURN(
      const DataLoad load,
      Call(connection.stub.get(), &DataLoadService::Stub::GetDataLoad, request, Terms(invocation)));
  PrintResource<DataLoad>(invocation, load, DescribeLoad);
  return absl::OkStatus();
}

absl::StatusOr<Output> FetchOutput(const std::string& job, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<OutputService>(invocation));
  GetOutputRequest request;
  request.set_name(absl::StrCat(InProject(invocation.project, "jobs", job), "/output"));
  return Call(connection.stub.get(), &OutputService::Stub::GetOutput, request, Terms(invocation));
}

absl::Status ShowOutput(const std::string& job, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Output output, FetchOutput(job, invocation));
  PrintResource<Output>(invocation, output, [&](const Output& shown) {
    return DescribeOutput(shown, invocation.out_terminal);
  });
  return absl::OkStatus();
}

}  // namespace capstan::cli
