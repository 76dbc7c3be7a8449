#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "libs/rpc/call.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/dataloader/v1/bundle.grpc.pb.h"
#include "tools/capstan/cli/bundle_folder.h"
#include "tools/capstan/cli/job_submit.h"

namespace capstan::cli {
namespace {

using dataloader::v1::Bundle;
using dataloader::v1::BundleService;
using dataloader::v1::Manifest;
using dataloader::v1::UploadBundleRequest;

constexpr size_t kChunkBytes = 512 << 10;
// At 1 GiB, the largest Bundle, this asks for 4 MiB/s.
constexpr absl::Duration kUploadTimeOut = absl::Minutes(5);

using Writer = grpc::ClientWriter<UploadBundleRequest>;

// Sends one file. False if the server has heard enough.
absl::StatusOr<bool> SendFile(const SafeRoot& root, const Manifest::File& file, Writer* writer) {
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, root.OpenFile(file.path(), O_RDONLY));
  std::vector<char> buffer(kChunkBytes);
  int64_t left = file.size_bytes();
  while (left > 0) {
    const ssize_t n =
        read(fd.get(), buffer.data(), std::min(buffer.size(), static_cast<size_t>(left)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "reading", file.path());
    if (n == 0) {
      return status::Error(absl::StatusCode::kAborted, "BUNDLE_CHANGED",
                           absl::StrCat(file.path(), " became shorter while it was read"),
                           {{"path", file.path()}});
    }
    UploadBundleRequest request;
    request.set_chunk(buffer.data(), static_cast<size_t>(n));
    if (!writer->Write(request)) return false;
    left -= n;
  }
  return true;
}

}  // namespace

absl::StatusOr<Bundle> UploadBundle(Platform& platform, const std::string& parent,
                                    const std::string& folder) {
  CAPSTAN_ASSIGN_OR_RETURN(Manifest manifest, ScanBundleFolder(folder));
  CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot root, SafeRoot::Open(folder));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Channel("data_loader"));
  const auto stub = BundleService::NewStub(channel);
  grpc::ClientContext context;
  rpc::SetDeadline(context, kUploadTimeOut);
  context.set_wait_for_ready(true);
  Bundle bundle;
  const auto writer = stub->UploadBundle(&context, &bundle);
  UploadBundleRequest header;
  header.mutable_header()->set_parent(parent);
  *header.mutable_header()->mutable_manifest() = manifest;
  bool wanted = writer->Write(header);
  for (int i = 0; wanted && i < manifest.files_size(); ++i) {
    const absl::StatusOr<bool> sent = SendFile(root, manifest.files(i), writer.get());
    if (!sent.ok()) {
      context.TryCancel();
      writer->Finish();
      return sent.status();
    }
    wanted = *sent;
  }
  writer->WritesDone();
  const absl::Status status = rpc::FromGrpcStatus(writer->Finish());
  if (!status.ok()) return status::Annotate(status, absl::StrCat("uploading ", folder));
  return bundle;
}

}  // namespace capstan::cli
