#include "services/data_loader/core/dataset_request.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/core/http_rules.h"

namespace capstan::data_loader {
namespace {

constexpr int kMaxObjects = 10'000;
constexpr size_t kMaxUri = 1024;
constexpr char kUrlExpected[] =
    "; expected an encoded http(s)://host/path without user, password and fragment";
constexpr char kPathExpected[] = "; expected a path without `.`, `..` and empty parts";

}  // namespace

absl::Status CheckCreateDataset(const capstan::dataloader::v1::CreateDatasetRequest& request) {
  status::FieldErrors errors;
  const absl::Status parent = resource::ProjectName::Parse(request.parent()).status();
  if (!parent.ok()) errors.Add("parent", parent.message());
  if (!resource::IsValidId(request.dataset_id())) {
    errors.Add("dataset_id",
               absl::StrCat("is '", request.dataset_id(), "'; expected ", resource::kIdRule));
  }
  const std::string& uri = request.dataset().source_uri();
  if (absl::StartsWith(uri, "http://") || absl::StartsWith(uri, "https://")) {
    const absl::StatusOr<HttpUrl> url = ParseHttpUrl(uri);
    if (!url.ok()) {
      errors.Add("dataset.source_uri", absl::StrCat(url.status().message(), kUrlExpected));
    } else if (!url->query.empty()) {
      errors.Add(
          "dataset.source_uri",
          absl::StrCat("'", url->Shown(),
                       "' has a query, which may be a secret, and would be stored and shown; leave "
                       "it out, or name the object in an index at the source"));
    }
  } else if (!absl::StartsWith(uri, "file:///") || uri.size() > kMaxUri) {
    // What is before an @ may be a password.
    const bool secret = absl::StrContains(uri, '@');
    errors.Add(
        "dataset.source_uri",
        absl::StrCat("is '", secret ? "…" : uri.substr(0, 100),
                     "'; expected file:///absolute/folder/, http://… or https://… of at most ",
                     kMaxUri, " bytes"));
  } else if (uri != "file:///") {
    std::string path = uri.substr(std::string("file:///").size());
    if (path.back() == '/') path.pop_back();
    const absl::Status safe = CheckRelativePath(path);
    if (!safe.ok()) errors.Add("dataset.source_uri", absl::StrCat(safe.message(), kPathExpected));
  }
  if (request.dataset().objects_size() > kMaxObjects) {
    errors.Add("dataset.objects", absl::StrCat("has ", request.dataset().objects_size(),
                                               " entries; expected at most ", kMaxObjects));
  }
  for (int i = 0; i < request.dataset().objects_size(); ++i) {
    const absl::Status safe = CheckRelativePath(request.dataset().objects(i));
    if (!safe.ok()) {
      errors.Add(absl::StrCat("dataset.objects[", i, "]"),
                 absl::StrCat(safe.message(), kPathExpected));
    }
  }
  if (errors.ok()) {
    const absl::Status set =
        CheckPathSet({request.dataset().objects().begin(), request.dataset().objects().end()});
    if (!set.ok()) {
      errors.Add("dataset.objects",
                 absl::StrCat(set.message(), "; expected each once, and none within another"));
    }
  }
  CAPSTAN_RETURN_IF_ERROR(errors.ToStatus());
  return resource::ValidateRequestId(request.request_id());
}

absl::Status CheckOpenOutput(const capstan::dataloader::v1::OpenOutputRequest& request) {
  status::FieldErrors errors;
  const absl::Status name = resource::OutputName::Parse(request.name()).status();
  if (!name.ok()) errors.Add("name", name.message());
  if (!resource::IsValidUuid4(request.job_uid())) {
    errors.Add("job_uid", absl::StrCat("is '", request.job_uid(), "'; expected a UUID4"));
  }
  if (request.generation() < 1) {
    errors.Add("generation", absl::StrCat("is ", request.generation(), "; expected 1 or more"));
  }
  return errors.ToStatus();
}

std::string DeterministicBytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace capstan::data_loader
