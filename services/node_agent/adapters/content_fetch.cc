#include "services/node_agent/adapters/content_fetch.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/content/content_writer.h"
#include "libs/content/manifest.h"
#include "libs/content/part_journal.h"
#include "libs/content/publish.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::node_agent {
namespace {

using ::capstan::dataloader::v1::ContentRef;
using ::capstan::dataloader::v1::Manifest;

bool Transient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    case absl::StatusCode::kResourceExhausted:
      return status::Reason(status) != "DISK_FULL";
    default:
      return false;
  }
}

// The attempts at something that may fail for a while.
class Attempts {
 public:
  Attempts(const FetchOptions& options, Random random, const FetchControl& control)
      : options_(options), random_(random), control_(control) {}

  // Something came: counting begins anew.
  void Progressed() { failed_ = 0; }
  // OK after a pause if it is worth another attempt.
  absl::Status Failed(const absl::Status& why) {
    if (*control_.stop) return absl::CancelledError("stopped");
    if (!Transient(why) || ++failed_ >= options_.attempts) return why;
    const absl::Duration pause = std::min(
        options_.last_pause, options_.first_pause * (int64_t{1} << std::min(failed_ - 1, 20)));
    control_.pause(random_.Between(pause / 2, pause));
    return *control_.stop ? absl::CancelledError("stopped") : absl::OkStatus();
  }

 private:
  const FetchOptions& options_;
  Random random_;
  const FetchControl& control_;
  int failed_ = 0;
};

absl::Status CheckFetched(const Manifest& manifest, const ContentRef& content) {
  CAPSTAN_RETURN_IF_ERROR(content::CheckManifest(manifest));
  if (content::ManifestDigest(manifest) == content.manifest_digest()) return absl::OkStatus();
  return status::Error(
      absl::StatusCode::kDataLoss, "MANIFEST_MISMATCH",
      absl::StrCat("the manifest of '", content.resource(), "' is not what its digest says"));
}

absl::StatusOr<Manifest> StagedOrFetched(const SafeRoot& root, const std::string& staging,
                                         const ContentRef& content, LoaderContent& loader,
                                         Attempts& attempts) {
  absl::StatusOr<Manifest> manifest = content::ReadManifest(root, staging + "/content");
  if (manifest.ok() && CheckFetched(*manifest, content).ok()) return manifest;
  while (true) {
    manifest = loader.ReadManifest(content);
    absl::Status fetched = manifest.status();
    if (fetched.ok()) fetched = CheckFetched(*manifest, content);
    if (fetched.ok()) break;
    CAPSTAN_RETURN_IF_ERROR(attempts.Failed(fetched));
  }
  CAPSTAN_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(root.path(), "/", staging, "/content.manifest"),
                          manifest->SerializeAsString(), 0600));
  return manifest;
}

// Brings the content part by part.
class Fetch {
 public:
  Fetch(const ContentRef& content, const Manifest& manifest, LoaderContent& loader,
        const FetchOptions& options, const FetchControl& control, content::PartJournal& journal,
        content::ContentWriter& writer)
      : content_(content),
        total_(content::TotalBytes(manifest)),
        loader_(loader),
        options_(options),
        control_(control),
        journal_(journal),
        writer_(writer),
        part_(writer.offset() / options.part_bytes) {}

  absl::Status Run(Attempts& attempts) {
    control_.progressed(writer_.offset(), total_);
    while (!writer_.complete()) {
      const int64_t from = writer_.offset();
      absl::Status read =
          loader_.Read(content_, {from, std::min(options_.call_bytes, total_ - from), total_},
                       [this](absl::string_view bytes) { return Take(bytes); });
      if (writer_.offset() > from) attempts.Progressed();
      if (read.ok() && writer_.offset() == from) {
        read = absl::UnavailableError("the stream ended before its first byte");
      }
      if (status::Reason(read) == "CONTENT_MISMATCH") {
        control_.progressed(writer_.offset(), total_);
        CAPSTAN_RETURN_IF_ERROR(Mismatched(read));
      } else if (!read.ok()) {
        CAPSTAN_RETURN_IF_ERROR(attempts.Failed(read));
      }
    }
    return writer_.Sync();
  }

 private:
  absl::Status Take(absl::string_view bytes) {
    if (*control_.stop) return absl::CancelledError("stopped");
    // In pieces that end where a part does.
    while (!bytes.empty()) {
      const int64_t left = options_.part_bytes - writer_.offset() % options_.part_bytes;
      const absl::string_view piece = bytes.substr(0, static_cast<size_t>(left));
      CAPSTAN_RETURN_IF_ERROR(writer_.Write(piece));
      bytes.remove_prefix(piece.size());
      // After a file that was wrong the writer may stand before parts that are journalled.
      for (; part_ < writer_.offset() / options_.part_bytes; ++part_) {
        CAPSTAN_RETURN_IF_ERROR(writer_.Sync());
        CAPSTAN_RETURN_IF_ERROR(journal_.Append({0, static_cast<int32_t>(part_)}));
      }
    }
    control_.progressed(writer_.offset(), total_);
    return absl::OkStatus();
  }

  absl::Status Mismatched(const absl::Status& why) {
    if (writer_.path() != wrong_file_) mismatches_ = 0;
    wrong_file_ = writer_.path();
    return ++mismatches_ >= options_.attempts_at_a_file ? why : absl::OkStatus();
  }

  const ContentRef& content_;
  const int64_t total_;
  LoaderContent& loader_;
  const FetchOptions& options_;
  const FetchControl& control_;
  content::PartJournal& journal_;
  content::ContentWriter& writer_;
  // The first part that is not in the journal.
  int64_t part_;
  std::string wrong_file_;
  int mismatches_ = 0;
};

}  // namespace

std::string StagingFolderOf(const std::string& key) {
  return absl::StrCat("staging/", absl::StrReplaceAll(key, {{"/", "-"}}));
}

absl::Status FetchContent(const SafeRoot& root, const std::string& key, const ContentRef& content,
                          LoaderContent& loader, const FetchOptions& options, Random random,
                          const FetchControl& control) {
  const std::string staging = StagingFolderOf(key);
  const std::string files = staging + "/files";
  CAPSTAN_RETURN_IF_ERROR(root.MakeDirectories(files, 0700));
  Attempts attempts(options, random, control);
  CAPSTAN_ASSIGN_OR_RETURN(const Manifest manifest,
                           StagedOrFetched(root, staging, content, loader, attempts));
  attempts.Progressed();
  {
    CAPSTAN_ASSIGN_OR_RETURN(content::PartJournal journal,
                             content::PartJournal::Open(root, staging + "/parts.journal"));
    const int64_t parts = journal.found().empty() ? 0 : journal.found().rbegin()->second + 1;
    CAPSTAN_ASSIGN_OR_RETURN(const SafeRoot target, root.Descend(files));
    CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<content::ContentWriter> writer,
                             content::ContentWriter::Open(
                                 &target, &manifest, parts * options.part_bytes, *control.stop));
    CAPSTAN_RETURN_IF_ERROR(
        Fetch(content, manifest, loader, options, control, journal, *writer).Run(attempts));
  }
  const std::string collection = key.substr(0, key.find('/'));
  CAPSTAN_RETURN_IF_ERROR(content::PublishFolder(root, files, collection, manifest));
  // What a crash leaves of it is removed when the cache is opened.
  return root.RemoveTree(staging);
}

}  // namespace capstan::node_agent
