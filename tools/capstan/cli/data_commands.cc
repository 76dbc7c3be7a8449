#include "tools/capstan/cli/data_commands.h"

#include <climits>
#include <cstdlib>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/dataloader/v1/bundle.grpc.pb.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/data_show.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/live_lines.h"
#include "tools/capstan/cli/load_text.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using dataloader::v1::Bundle;
using dataloader::v1::BundleService;
using dataloader::v1::CreateDatasetRequest;
using dataloader::v1::DataLoad;
using dataloader::v1::DataLoadService;
using dataloader::v1::Dataset;
using dataloader::v1::DatasetService;
using dataloader::v1::EnsureDataLoadRequest;
using dataloader::v1::GetBundleRequest;
using dataloader::v1::GetDataLoadRequest;
using dataloader::v1::GetDatasetRequest;
using dataloader::v1::GetOutputRequest;
using dataloader::v1::ListDataLoadsRequest;
using dataloader::v1::ListDataLoadsResponse;
using dataloader::v1::ListDatasetsRequest;
using dataloader::v1::ListDatasetsResponse;
using dataloader::v1::Output;
using dataloader::v1::OutputService;

absl::StatusOr<std::string> SourceUri(const std::string& source) {
  if (absl::StrContains(source, "://")) return source;
  char resolved[PATH_MAX];
  if (realpath(source.c_str(), resolved) == nullptr) {
    // What is before an @ may be a password, of a URL that lacks its scheme.
    const std::string shown = absl::StrContains(source, '@') ? "…" : source;
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_SUCH_SOURCE",
                         absl::StrCat("'", shown, "' is neither a URI nor a folder here"),
                         {{"source", shown}});
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
      {"VERSION", [](const DataLoad& load) { return LastSegment(load.version()); }, /*wide=*/true},
      {"READ", [](const DataLoad& load) { return HumanBytes(load.source_bytes_read()); },
       /*wide=*/true},
      {"MESSAGE", [](const DataLoad& load) { return load.message(); }, /*wide=*/true},
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

std::string DescribeDataset(const Dataset& dataset, absl::Time now) {
  std::string out;
  const auto add = [&out](absl::string_view name, const std::string& value) {
    absl::StrAppend(&out, name, value.empty() ? "-" : WithoutControls(value), "\n");
  };
  add("Name:     ", dataset.name());
  add("Uid:      ", dataset.uid());
  add("Source:   ", dataset.source_uri());
  add("Objects:  ",
      dataset.objects().empty() ? "all below it" : absl::StrJoin(dataset.objects(), ", "));
  add("Latest:   ", LastSegment(dataset.latest_version()));
  add("Age:      ", HumanAge(ToTime(dataset.create_time()), now));
  return out;
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
    if (invocation.output.format != OutputFormat::kTable) {
      *invocation.out << RenderChange(invocation, load) << std::endl;
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
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<DatasetService>(invocation, "data_loader"));
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
  return PrintResource<Dataset>(invocation, dataset, [](const Dataset& made) {
    return absl::StrCat(made.name(), " created\n");
  });
}

absl::Status ListDatasets(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<DatasetService>(invocation, "data_loader"));
  ListDatasetsRequest request;
  request.set_parent(ProjectParent(invocation.project));
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto all, ListAll(connection.stub.get(), &DatasetService::Stub::ListDatasets, request,
                              &ListDatasetsResponse::mutable_datasets, Terms(invocation)));
  const absl::Time now = invocation.clock->Read().wall;
  return PrintList<Dataset>(
      invocation, "datasets", all,
      {{"NAME", [](const Dataset& dataset) { return LastSegment(dataset.name()); }},
       {"SOURCE", [](const Dataset& dataset) { return dataset.source_uri(); }},
       {"LATEST", [](const Dataset& dataset) { return LastSegment(dataset.latest_version()); }},
       {"AGE",
        [now](const Dataset& dataset) { return HumanAge(ToTime(dataset.create_time()), now); }},
       {"OBJECTS",
        [](const Dataset& dataset) {
          return dataset.objects().empty() ? "all" : absl::StrJoin(dataset.objects(), ",");
        },
        /*wide=*/true},
       {"UID", [](const Dataset& dataset) { return dataset.uid(); }, /*wide=*/true}});
}

absl::Status GetDataset(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<DatasetService>(invocation, "data_loader"));
  GetDatasetRequest request;
  request.set_name(InProject(invocation.project, "datasets", name));
  CAPSTAN_ASSIGN_OR_RETURN(
      const Dataset dataset,
      Call(connection.stub.get(), &DatasetService::Stub::GetDataset, request, Terms(invocation)));
  return PrintResource<Dataset>(invocation, dataset, [&](const Dataset& shown) {
    return DescribeDataset(shown, invocation.clock->Read().wall);
  });
}

absl::Status StartLoad(const StartLoadOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<DataLoadService>(invocation, "data_loader"));
  EnsureDataLoadRequest request;
  request.set_dataset(InProject(invocation.project, "datasets", options.dataset));
  request.set_version(LastSegment(options.version));
  if (!options.cluster.empty()) request.set_cluster(LastSegment(options.cluster));
  request.set_retry_failed(options.retry_failed);
  CAPSTAN_ASSIGN_OR_RETURN(const DataLoad load,
                           Call(connection.stub.get(), &DataLoadService::Stub::EnsureDataLoad,
                                request, Terms(invocation)));
  if (options.watch) return WatchLoad(load.name(), invocation);
  return PrintResource<DataLoad>(invocation, load, DescribeLoad);
}

absl::Status GetBundle(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<BundleService>(invocation, "data_loader"));
  GetBundleRequest request;
  // As a Job names it, or as the platform does.
  request.set_name(
      InProject(invocation.project, "bundles", std::string(absl::StripPrefix(name, "sha256:"))));
  CAPSTAN_ASSIGN_OR_RETURN(
      const Bundle bundle,
      Call(connection.stub.get(), &BundleService::Stub::GetBundle, request, Terms(invocation)));
  return PrintResource<Bundle>(invocation, bundle, DescribeBundle);
}

std::string DescribeBundle(const Bundle& bundle) {
  return absl::StrCat(bundle.digest(), ": ", bundle.file_count(), " files, ",
                      HumanBytes(bundle.total_bytes()), "\n");
}

absl::Status ListLoads(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<DataLoadService>(invocation, "data_loader"));
  ListDataLoadsRequest request;
  request.set_parent(ProjectParent(invocation.project));
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto all, ListAll(connection.stub.get(), &DataLoadService::Stub::ListDataLoads, request,
                              &ListDataLoadsResponse::mutable_data_loads, Terms(invocation)));
  return PrintList<DataLoad>(invocation, "data_loads", all, LoadColumns());
}

absl::Status GetLoad(const std::string& name, bool watch, Invocation& invocation) {
  const std::string whole = InProject(invocation.project, "dataLoads", name);
  if (watch) return WatchLoad(whole, invocation);
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<DataLoadService>(invocation, "data_loader"));
  GetDataLoadRequest request;
  request.set_name(whole);
  CAPSTAN_ASSIGN_OR_RETURN(
      const DataLoad load,
      Call(connection.stub.get(), &DataLoadService::Stub::GetDataLoad, request, Terms(invocation)));
  return PrintResource<DataLoad>(invocation, load, DescribeLoad);
}

absl::StatusOr<Output> FetchOutput(const std::string& job, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection,
                           Connect<OutputService>(invocation, "data_loader"));
  GetOutputRequest request;
  request.set_name(absl::StrCat(InProject(invocation.project, "jobs", job), "/output"));
  return Call(connection.stub.get(), &OutputService::Stub::GetOutput, request, Terms(invocation));
}

absl::Status ShowOutput(const std::string& job, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Output output, FetchOutput(job, invocation));
  return PrintResource<Output>(invocation, output, [&](const Output& shown) {
    return DescribeOutput(shown, invocation.out_terminal);
  });
}

}  // namespace capstan::cli
