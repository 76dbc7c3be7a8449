// A Task that says what happens to it, for tests: appends lines to a file that Capstan never reads.
// It speaks the whole of docs/task_contract.md that restarts rest on: checkpoints and resuming.
//
// A line: `<what> <generation> <rank> <nanoseconds since boot> <step>`, what being
//   start   once, before anything else       beat     every 50 ms
//   ask     a checkpoint's commit begins     orphan   as beat, by a child in a session of its own
//   commit  it was answered 200              end      the last word, all steps done
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "curl/curl.h"
#include "libs/time/system_clock.h"

namespace {

constexpr absl::Duration kBeat = absl::Milliseconds(50);
constexpr absl::Duration kCommitRetry = absl::Milliseconds(200);

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

long Number(const char* name, long otherwise) {
  const std::string text = Variable(name);
  return text.empty() ? otherwise : atol(text.c_str());
}

// Ticks for ever; each Wait takes one.
class Ticker {
 public:
  explicit Ticker(absl::Duration period) : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
    itimerspec spec{};
    spec.it_interval = spec.it_value = absl::ToTimespec(period);
    timerfd_settime(fd_, 0, &spec, nullptr);
  }
  ~Ticker() { close(fd_); }
  void Wait() {
    uint64_t ticks;
    while (read(fd_, &ticks, sizeof ticks) < 0 && errno == EINTR) {
    }
  }

 private:
  const int fd_;
};

class Witness {
 public:
  Witness()
      : file_(open(Variable("WITNESS_FILE").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
                   0666)),
        generation_(Variable("CAPSTAN_GENERATION")),
        rank_(Variable("RANK")) {
    if (file_ >= 0) return;
    perror("WITNESS_FILE");
    exit(2);
  }

  // One write, which the kernel appends whole.
  void Say(const char* what, long step) {
    const std::string line = std::string(what) + " " + generation_ + " " + rank_ + " " +
                             std::to_string(clock_.Read().boot.ToNanoseconds()) + " " +
                             std::to_string(step) + "\n";
    if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) exit(2);
  }

 private:
  const capstan::SystemClock clock_;
  const int file_;
  const std::string generation_;
  const std::string rank_;
};

// Leaves a process behind that no longer belongs to the Task's session or parent.
void LeaveOrphan(Witness& witness) {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  Ticker ticker(kBeat);
  while (true) {
    witness.Say("orphan", 0);
    ticker.Wait();
  }
}

// 200, 503, 0 if nobody answered.
long AskForCommit(const std::string& body) {
  CURL* curl = curl_easy_init();
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, Variable("CAPSTAN_SOCKET").c_str());
  curl_easy_setopt(curl, CURLOPT_URL, "http://localhost/v1/checkpoints:commit");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body.c_str());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  long code = 0;
  if (curl_easy_perform(curl) == CURLE_OK) {
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  }
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  return code;
}

// Commits `step`, however long that takes; anything but 200 and "later" ends the Task.
void Commit(long step, Witness& witness) {
  const std::string name = "step-" + std::to_string(step);
  const std::string folder = Variable("CAPSTAN_OUTPUT_DIR") + "/" + name;
  mkdir(folder.c_str(), 0755);
  std::ofstream(folder + "/step") << step << "\n";
  const std::string body = "{\"dir\": \"" + name + "\", \"step\": " + std::to_string(step) + "}";
  witness.Say("ask", step);
  Ticker retry(kCommitRetry);
  long code;
  while ((code = AskForCommit(body)) != 200) {
    if (code != 0 && code < 500) {
      fprintf(stderr, "checkpoint %ld was refused: %ld\n", step, code);
      exit(1);
    }
    retry.Wait();
  }
  witness.Say("commit", step);
}

long FirstStep() {
  const std::string resume = Variable("CAPSTAN_RESUME_DIR");
  if (resume.empty()) return 1;
  long step = 0;
  std::ifstream(resume + "/step") >> step;
  return step + 1;
}

}  // namespace

int main() {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Witness witness;
  const long first = FirstStep();
  witness.Say("start", first);
  if (!Variable("WITNESS_ORPHAN").empty()) LeaveOrphan(witness);
  const long last = Number("WITNESS_STEPS", 100);
  const long every = Number("WITNESS_CHECKPOINT_EVERY", 0);
  const bool commits = every > 0 && Variable("RANK") == "0";

  std::atomic<long> step = first;
  // A commit may wait for a part to come back: the beat must not.
  std::thread([&] {
    Ticker ticker(kBeat);
    while (true) {
      witness.Say("beat", step);
      ticker.Wait();
    }
  }).detach();
  Ticker steps(absl::Milliseconds(Number("WITNESS_STEP_MS", 50)));
  while (step <= last) {
    steps.Wait();
    printf("step %ld\n", step.load());
    if (commits && step % every == 0) Commit(step, witness);
    ++step;
  }
  witness.Say("end", last);
  _exit(0);
}
