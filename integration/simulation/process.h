#ifndef CAPSTAN_INTEGRATION_SIMULATION_PROCESS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_PROCESS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "integration/simulation/world.h"
#include "libs/store/store.h"

namespace capstan::simulation {

// A process that may be killed and started again (a new life), stopped (SIGSTOP) and continued.
// What is to be done by one life is never done by another; what comes while stopped is done
// afterwards.
class Process {
 public:
  Process(World* world, std::string name, const MachineClock* clock)
      : world_(world), name_(std::move(name)), clock_(clock) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  World& world() { return *world_; }
  const MachineClock* clock() const { return clock_; }
  Now Read() const { return clock_->Read(); }
  // True time until its clock shows `when`; not negative.
  absl::Duration Until(BootTime when) const { return clock_->Until(when); }
  bool up() const { return up_; }
  bool stopped() const { return stopped_; }
  // 0 before the first.
  int64_t life() const { return life_; }

  void Start();
  void Crash();
  void Stop();
  void Continue();
  // A commit of its found no room: as the engines do, it drops its state and after a second loads
  // again.
  void DropState();
  // Its disk has failed it: as the engines do, it drops its state and tries to load again, in vain,
  // since a SqliteStore answers nothing from then on. So it is as good as dead until somebody
  // starts it again.
  void LoseStore();

  // Does `work` in the life given: now, or once continued; not at all if that life is over.
  void Run(int64_t life, std::function<void()> work);
  // Does `work` in this life after true time has passed.
  void Later(absl::Duration delay, std::function<void()> work);
  // The process's single alarm: OnAlarm when its clock shows `when`. Setting it again moves it.
  void SetAlarm(absl::optional<BootTime> when);

 protected:
  virtual void OnStart() = 0;
  // The life is over: drop everything that is not on disk.
  virtual void OnCrash() = 0;
  virtual void OnAlarm() = 0;

 private:
  World* const world_;
  const std::string name_;
  const MachineClock* const clock_;
  bool up_ = false;
  bool stopped_ = false;
  int64_t life_ = 0;
  int64_t alarm_ = 0;
  absl::optional<BootTime> alarm_time_;
  std::deque<std::function<void()>> waiting_;
};

// What survives a crash.
struct Disk {
  std::map<std::string, std::string> records;
  int64_t revision = 0;
  // Every commit is refused and leaves nothing.
  bool full = false;
  // Every commit fails with an I/O error, and may be there all the same.
  bool failing = false;
  // If not zero, a commit may take this long.
  absl::Duration slowest;
  // The mutant whose failed commits look as if they had succeeded.
  bool lies = false;

  bool troubled() const { return full || failing || slowest > absl::ZeroDuration(); }
  void Heal() {
    full = false;
    failing = false;
    slowest = absl::ZeroDuration();
  }
  std::vector<store::KeyValue> Read() const;
  void Apply(const std::vector<store::Put>& puts, const std::vector<store::Delete>& deletes);
};

// Whether a commit that a failing disk reports as failed is there all the same; counts it.
bool FailedCommitIsThere(World* world);

// Commits in order, each after a while, and then does what was to come after it. One a process;
// made anew in each life.
class CommitPipe {
 public:
  struct Options {
    // Whether the commit is allowed to take effect, asked at that moment; else the pipe is dead.
    std::function<bool()> compare = [] { return true; };
    // Whether the store can be reached now; while it can't, commits wait.
    std::function<bool()> reachable = [] { return true; };
    std::function<void()> on_dead = [] {};
    // A commit has failed for good and the pipe is dead; if null, the process drops its state, or
    // loses its store.
    std::function<void()> on_failed = nullptr;
    // The mutant that acts before it has persisted.
    bool act_first = false;
    absl::Duration slowest = absl::Milliseconds(20);
    // A commit under way when the pipe ends may reach a store on another machine this much later.
    absl::Duration latest = absl::ZeroDuration();
  };
  // The usual, or the mutant that acts at once and writes seconds behind.
  static Options BehindIf(bool mutant) {
    Options options;
    if (!mutant) return options;
    options.act_first = true;
    options.slowest = absl::Seconds(5);
    return options;
  }
  CommitPipe(Process* process, Disk* disk, Options options)
      : process_(process), disk_(disk), life_(process->life()), options_(std::move(options)) {}

  // `after` gets the revision of the commit, or of the one before if there is nothing to write.
  // `written` is for those who look from outside the world: it runs when what there is to write is
  // on disk, also if the life has ended by then and nothing in the world comes to know.
  void Submit(std::vector<store::Put> puts, std::vector<store::Delete> deletes,
              std::function<void(int64_t revision)> after, std::function<void()> written = nullptr);
  // The process was killed: the commit under way may or may not have taken effect.
  void Crash();

 private:
  struct Commit {
    std::vector<store::Put> puts;
    std::vector<store::Delete> deletes;
    std::function<void(int64_t)> after;
    std::function<void()> written;
  };
  static void Write(Disk* disk, const Commit& commit);
  static void ArriveLate(World* world, Disk* disk, const Options& options, const Commit& commit,
                         int tries);
  void Next();
  void TryLater(absl::Duration delay);
  void Try();

  Process* const process_;
  Disk* const disk_;
  const int64_t life_;
  const Options options_;
  std::deque<Commit> queue_;
  bool busy_ = false;
  bool dead_ = false;
  // Expires with the pipe, which may end before the life does.
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_PROCESS_H_
