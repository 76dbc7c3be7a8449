#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CONTENT_FETCH_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CONTENT_FETCH_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "services/node_agent/ports/loader_content.h"

namespace capstan::node_agent {

struct FetchOptions {
  // What is made durable and journalled at once: at most this, and what is on the wire, is fetched
  // twice after a crash.
  int64_t part_bytes = 8 << 20;
  // Asked for in one call.
  int64_t call_bytes = 256 << 20;
  // Attempts in a row that bring nothing before the fetch fails; and those at one file whose bytes
  // are not what its digest says.
  int attempts = 8;
  int attempts_at_a_file = 3;
  // Between attempts: doubles from the first to the last, with jitter.
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration last_pause = absl::Seconds(10);
};

// How a fetch waits and is ended.
struct FetchControl {
  const std::atomic<bool>* stop = nullptr;
  // Returns after the pause, or earlier once `stop` is set.
  absl::FunctionRef<void(absl::Duration)> pause;
  // Bytes that are here, of all.
  absl::FunctionRef<void(int64_t done, int64_t total)> progressed;
};

// Folder in which the content of a key is staged.
std::string StagingFolderOf(const std::string& key);

// Brings content to `<root>/<key>`, whole, read-only and durable, by one rename, with its manifest
// beside it as `<key>.manifest`; blocks until it is there. `key` is `<collection>/<hex of the
// manifest digest>`.
//
// 1. The manifest, unless an earlier attempt has staged it; its digest must be the one asked for.
// 2. The content from where the journal ends; what is staged is read back and checked first. Each
//    file is checked against its digest as its last byte comes; one that fails is fetched again.
// 3. Publishing.
//
// Transient errors and streams that end early are tried again as the options say. Errors:
// CANCELLED once stopped; DATA_LOSS (CONTENT_MISMATCH) if a file stays wrong; that of the disk
// (DISK_FULL); or the loader's. After an error what is staged is kept for another attempt.
absl::Status FetchContent(const SafeRoot& root, const std::string& key,
                          const capstan::dataloader::v1::ContentRef& content, LoaderContent& loader,
                          const FetchOptions& options, Random random, const FetchControl& control);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_CONTENT_FETCH_H_
