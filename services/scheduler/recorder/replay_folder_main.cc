// For replay_test: replays each recording of a folder in a process of its own, where hash tables
// have another order. usage: replay_folder FOLDER HASH. Exits with 42 if the order is that of HASH.
#include <cstdio>
#include <string>

#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "services/scheduler/recorder/recording_file.h"
#include "services/scheduler/recorder/recording_folder.h"
#include "services/scheduler/recorder/replay.h"

int main(int argc, char** argv) {
  using namespace capstan::scheduler;  // NOLINT(google-build-using-namespace)
  uint64_t hash = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &hash)) return 2;
  if (hash == absl::HashOf(std::string("seed"))) return 42;
  int64_t steps = 0;
  for (const RecordingFile& file : RecordingsIn(argv[1])) {
    const auto reader = RecordingReader::Open(file.path);
    if (!reader.ok()) return 3;
    const auto replayed = Replay(reader->get(), {});
    if (!replayed.ok()) return 3;
    steps += replayed->steps;
    if (replayed->different_step == 0) continue;
    std::fprintf(stderr, "%s: %s\n%s", file.path.c_str(), replayed->event.c_str(),
                 replayed->difference.c_str());
    return 1;
  }
  return steps > 0 ? 0 : 3;
}
