#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_LOADER_CONTENT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_LOADER_CONTENT_H_

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/content/content_reader.h"
#include "libs/content/manifest.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "services/node_agent/ports/loader_content.h"

namespace capstan::node_agent {

// Content in memory, by digest, and what was committed. Thread-safe.
class FakeLoaderContent final : public LoaderContent {
 public:
  using Manifest = capstan::dataloader::v1::Manifest;
  using ContentRef = capstan::dataloader::v1::ContentRef;

  // Adds content of these files and returns its digest.
  std::string Add(const std::map<std::string, std::string>& files) {
    Stored stored;
    for (const auto& [path, bytes] : files) {
      Manifest::File& file = *stored.manifest.add_files();
      file.set_path(path);
      file.set_size_bytes(static_cast<int64_t>(bytes.size()));
      file.set_sha256(Sha256::Of(bytes));
      stored.bytes += bytes;
    }
    const std::string digest = content::ManifestDigest(stored.manifest);
    absl::MutexLock lock(&mutex_);
    contents_[digest] = std::move(stored);
    return digest;
  }
  void Remove(const std::string& digest) {
    absl::MutexLock lock(&mutex_);
    contents_.erase(digest);
  }

  absl::StatusOr<Manifest> ReadManifest(const ContentRef& content) override {
    if (on_manifest) {
      absl::Status status = on_manifest();
      if (!status.ok()) return status;
    }
    absl::MutexLock lock(&mutex_);
    const auto found = contents_.find(content.manifest_digest());
    if (found == contents_.end()) return status::NotFound(content.resource());
    return found->second.manifest;
  }

  absl::Status Read(const ContentRef& content, const ContentRange& range,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink) override {
    std::string bytes;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = contents_.find(content.manifest_digest());
      if (found == contents_.end()) return status::NotFound(content.resource());
      bytes = found->second.bytes.substr(static_cast<size_t>(range.offset),
                                         static_cast<size_t>(range.length));
    }
    for (size_t at = 0; at < bytes.size(); at += piece_bytes) {
      std::string piece = bytes.substr(at, piece_bytes);
      if (on_piece) {
        absl::Status status = on_piece(range.offset + static_cast<int64_t>(at), piece);
        if (!status.ok()) return status;
      }
      {
        absl::MutexLock lock(&mutex_);
        sent_bytes_ += static_cast<int64_t>(piece.size());
      }
      absl::Status taken = sink(piece);
      if (!taken.ok()) return taken;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<capstan::dataloader::v1::CommitOutputResponse> SendOutput(
      const capstan::dataloader::v1::CommitOutputRequest& commit, const SafeRoot& root,
      const Manifest& manifest) override {
    if (on_send) {
      absl::Status status = on_send();
      if (!status.ok()) return status;
    }
    absl::StatusOr<SafeRoot> again = SafeRoot::Open(root.path());
    if (!again.ok()) return again.status();
    content::ContentReader reader(*std::move(again), manifest);
    absl::StatusOr<std::string> bytes =
        reader.Read(0, static_cast<size_t>(content::TotalBytes(manifest)));
    if (!bytes.ok()) return bytes.status();
    capstan::dataloader::v1::CommitOutputResponse response;
    response.set_manifest_digest(content::ManifestDigest(manifest));
    absl::MutexLock lock(&mutex_);
    contents_[response.manifest_digest()] = {manifest, *std::move(bytes)};
    commits_.push_back(commit);
    return response;
  }

  void Stop() override {}

  int64_t sent_bytes() const {
    absl::MutexLock lock(&mutex_);
    return sent_bytes_;
  }
  std::vector<capstan::dataloader::v1::CommitOutputRequest> commits() const {
    absl::MutexLock lock(&mutex_);
    return commits_;
  }

  // Set before use; called on the threads of the callers. May change what is sent, or fail.
  std::function<absl::Status()> on_manifest;
  std::function<absl::Status(int64_t offset, std::string& piece)> on_piece;
  std::function<absl::Status()> on_send;
  size_t piece_bytes = 100;

 private:
  struct Stored {
    Manifest manifest;
    std::string bytes;
  };
  mutable absl::Mutex mutex_;
  std::map<std::string, Stored> contents_ ABSL_GUARDED_BY(mutex_);
  std::vector<capstan::dataloader::v1::CommitOutputRequest> commits_ ABSL_GUARDED_BY(mutex_);
  int64_t sent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_LOADER_CONTENT_H_
