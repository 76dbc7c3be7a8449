// A real process appends records, as several producers that repeat what was not acknowledged, and
// is killed again and again: every acknowledged record is there, once, and each producer's in
// order.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "services/telemetry/adapters/stream_files.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::telemetry {
namespace {

constexpr int kProducers = 6;
// Rounds after which a new Job's Streams are written: those of one grow out of being small.
constexpr int kRoundsOfAJob = 5;

std::string StreamOf(int round, int64_t producer) {
  return absl::StrCat("projects/p/jobs/j", round / kRoundsOfAJob, "/streams/",
                      producer % 2 == 0 ? "log" : "events");
}

struct Acknowledgement {
  int64_t producer;
  int64_t sequence;
};

// In one round of five as a program that makes no small Streams: it goes on with those it finds.
StreamFiles::Options OptionsFor(const std::string& root, int round) {
  return {.root = root,
          .segment_bytes = 60000,
          .small_bytes = round % kRoundsOfAJob == 3 ? 0 : (round % 2 + 1) * int64_t{40000}};
}

[[noreturn]] void AppendUntilKilled(const std::string& root, int round,
                                    std::array<int64_t, kProducers> acknowledged, int fd) {
  SystemClock clock;
  ThreadStrand strand("crash", &clock);
  log::TestingSink sink;
  log::Logger logger("crash", &clock, &sink);
  auto files = StreamFiles::Open(OptionsFor(root, round), &strand, &logger);
  if (!files.ok()) ::_exit(3);
  std::function<void(int64_t)> step = [&](int64_t producer) {
    // One more than was acknowledged, and a few that may be there already.
    std::vector<v1::Record> records;
    const int64_t last = acknowledged[producer] + 3;
    for (int64_t sequence = std::max<int64_t>(1, last - 5); sequence <= last; ++sequence) {
      v1::Record record;
      record.set_kind("log");
      record.set_producer(absl::StrCat(producer));
      record.set_producer_sequence(sequence);
      record.set_payload(std::string(sequence * 31 % 2000, 'x'));
      records.push_back(std::move(record));
    }
    (*files)->Append({{StreamOf(round, producer), std::move(records)}},
                     [&, producer, last](const AppendResults& results) {
                       if (!results.front().ok()) ::_exit(4);
                       acknowledged[producer] = last;
                       const Acknowledgement ack{producer, last};
                       if (::write(fd, &ack, sizeof(ack)) != sizeof(ack)) ::_exit(5);
                       step(producer);
                     });
  };
  strand.Post([&] {
    for (int64_t producer = 0; producer < kProducers; ++producer) step(producer);
  });
  absl::Notification never;
  never.WaitForNotification();
  ::_exit(6);
}

std::vector<v1::Record> ReadWhole(StreamFiles* files, const std::string& stream) {
  std::vector<v1::Record> all;
  int64_t next = 1;
  while (true) {
    absl::Notification done;
    absl::StatusOr<StreamFiles::Piece> piece = absl::UnknownError("");
    files->Read(stream, {next, 0}, 1 << 20, [&](absl::StatusOr<StreamFiles::Piece> got) {
      piece = std::move(got);
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_TRUE(piece.ok()) << piece.status();
    if (!piece.ok() || piece->records.empty()) return all;
    for (v1::Record& record : piece->records) all.push_back(std::move(record));
    next = piece->next_offset;
  }
}

TEST(StreamFilesCrashTest, AcknowledgedRecordsAreThereOnceAfterAKill) {
  const std::string root = testing::TempDir() + "/streams";
  std::filesystem::remove_all(root);
  Random random(3);
  std::array<int64_t, kProducers> acknowledged{};
  int total = 0;
  int moved = 0;
  for (int round = 0; round < 40; ++round) {
    if (round % kRoundsOfAJob == 0) acknowledged = {};
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(fds[0]);
      AppendUntilKilled(root, round, acknowledged, fds[1]);
    }
    ::close(fds[1]);
    const int64_t wanted = random.Between(1, 80);
    Acknowledgement ack;
    for (int64_t got = 1; ::read(fds[0], &ack, sizeof(ack)) == sizeof(ack); ++got, ++total) {
      acknowledged[ack.producer] = ack.sequence;
      if (got == wanted) {
        ASSERT_EQ(::kill(child, SIGKILL), 0);
      }
    }
    ::close(fds[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);

    SystemClock clock;
    ThreadStrand strand("check", &clock);
    log::TestingSink sink;
    log::Logger logger("check", &clock, &sink);
    auto files = StreamFiles::Open(OptionsFor(root, round), &strand, &logger);
    ASSERT_TRUE(files.ok()) << files.status();
    std::array<int64_t, kProducers> seen{};
    for (const int64_t of : {0, 1}) {
      int64_t offset = 1;
      for (const v1::Record& record : ReadWhole(files->get(), StreamOf(round, of))) {
        ASSERT_EQ(record.offset(), offset++);
        const int producer = std::stoi(record.producer());
        ASSERT_EQ(record.producer_sequence(), seen[producer] + 1) << "lost, doubled or reordered";
        seen[producer] = record.producer_sequence();
      }
    }
    for (int producer = 0; producer < kProducers; ++producer) {
      ASSERT_GE(seen[producer], acknowledged[producer]);
    }
    for (const int64_t of : {0, 1}) {
      if (round % kRoundsOfAJob == kRoundsOfAJob - 1 &&
          std::filesystem::exists(absl::StrCat(root, "/", StreamOf(round, of)))) {
        ++moved;
      }
    }
    files->reset();
    strand.Stop();
  }
  EXPECT_GT(moved, 3);
  EXPECT_GT(total, 600);
}

}  // namespace
}  // namespace capstan::telemetry
