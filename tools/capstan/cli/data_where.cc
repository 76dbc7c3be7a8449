#include "tools/capstan/cli/data_where.h"

#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/dataloader/v1/dataset.grpc.pb.h"
#include "proto/capstan/dataloader/v1/site.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using dataloader::v1::Dataset;
using dataloader::v1::DatasetService;
using dataloader::v1::GetDatasetRequest;
using dataloader::v1::ListVersionSitesRequest;
using dataloader::v1::SiteService;
using dataloader::v1::VersionSite;

std::vector<Column<VersionSite>> Columns(int64_t total) {
  return {
      {"SITE",
       [](const VersionSite& site) {
         return absl::StartsWith(site.site(), "clusters/") ? site.site() : LastSegment(site.site());
       }},
      {"STATE",
       [](const VersionSite& site) {
         return ShortEnum(VersionSite::State_Name(site.state()), "STATE_");
       }},
      {"DONE",
       [total](const VersionSite& site) {
         // An empty version is whole as well.
         if (site.state() == VersionSite::STATE_WHOLE) return std::string("100%");
         return Percent(site.have_bytes(), total);
       }},
      {"BYTES", [](const VersionSite& site) { return HumanBytes(site.have_bytes()); }},
      {"RATE",
       [](const VersionSite& site) {
         return site.bytes_per_second() < 1
                    ? ""
                    : absl::StrCat(HumanBytes(static_cast<int64_t>(site.bytes_per_second())), "/s");
       }},
      {"FROM", [](const VersionSite& site) { return LastSegment(site.source()); }},
      {"PINS", [](const VersionSite& site) { return absl::StrCat(site.holders_size()); }},
      {"HOLDERS", [](const VersionSite& site) { return absl::StrJoin(site.holders(), ","); },
       /*wide=*/true},
  };
}

}  // namespace

absl::Status ShowVersionSites(const std::string& name, const std::string& version,
                              Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("data_loader"));
  ListVersionSitesRequest request;
  if (absl::StrContains(name, "/versions/")) {
    request.set_version(name);
  } else if (!version.empty()) {
    request.set_version(absl::StrCat(InProject(invocation.project, "datasets", name), "/versions/",
                                     LastSegment(version)));
  } else {
    GetDatasetRequest get;
    get.set_name(InProject(invocation.project, "datasets", name));
    const auto datasets = DatasetService::NewStub(channel);
    CAPSTAN_ASSIGN_OR_RETURN(
        const Dataset dataset,
        Call(datasets.get(), &DatasetService::Stub::GetDataset, get, Terms(invocation)));
    if (dataset.latest_version().empty()) {
      return status::Error(absl::StatusCode::kNotFound, "NO_VERSION",
                           absl::StrCat("'", dataset.name(),
                                        "' has no version yet: bring it with `capstan load start ",
                                        LastSegment(dataset.name()), "`"));
    }
    request.set_version(dataset.latest_version());
  }
  const auto sites = SiteService::NewStub(channel);
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto answer,
      Call(sites.get(), &SiteService::Stub::ListVersionSites, request, Terms(invocation)));
  const std::vector<VersionSite> all(answer.sites().begin(), answer.sites().end());
  return PrintList<VersionSite>(invocation, "sites", all, Columns(answer.version().total_bytes()));
}

}  // namespace capstan::cli
