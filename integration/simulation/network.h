#ifndef CAPSTAN_INTEGRATION_SIMULATION_NETWORK_H_
#define CAPSTAN_INTEGRATION_SIMULATION_NETWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "integration/simulation/process.h"
#include "integration/simulation/world.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::simulation {

class Pipe;

// Sees what goes over streams and changes nothing.
class Tap {
 public:
  virtual ~Tap() = default;
  virtual void SentUp(const Pipe& pipe, const capstan::type::v1::SessionUp& message) = 0;
  virtual void SentDown(const Pipe& pipe, const capstan::type::v1::SessionDown& message) = 0;
  // Just before the lower end takes it.
  virtual void TakenDown(const Pipe& pipe, const capstan::type::v1::SessionDown& message) = 0;
};

// Everything between processes. A stream keeps its order, as TCP does, but may be delayed, half
// dead, or broken without the other side's knowing; calls may be late, lost, doubled and overtake
// each other.
class Network {
 public:
  // Where nothing else is set.
  static constexpr absl::Duration kSlowest = absl::Milliseconds(20);

  explicit Network(World* world) : world_(world) {}

  World& world() { return *world_; }

  // One direction between two processes, by name; a process reaches itself always.
  void Cut(const std::string& from, const std::string& to) { cuts_.insert({from, to}); }
  void Heal() { cuts_.clear(); }
  void Heal(const std::string& from, const std::string& to) { cuts_.erase({from, to}); }
  bool Passes(const std::string& from, const std::string& to) const {
    return cuts_.count({from, to}) == 0;
  }
  // Messages take up to this long.
  void SetSlowest(absl::Duration slowest) { slowest_ = slowest; }
  void SetDoubling(bool doubling) { doubling_ = doubling; }
  // What goes to or from this process alone takes up to so long; zero: as the others'.
  void SetSlowest(const std::string& peer, absl::Duration slowest);
  // Of calls and their answers some are held back for seconds, and later ones overtake them.
  void SetReordering(bool reordering) { reordering_ = reordering; }
  // Ends all that Set… has begun.
  void Calm();
  // Outlives the network; null for none.
  void SetTap(Tap* tap) { tap_ = tap; }
  Tap* tap() const { return tap_; }

  absl::Duration Delay(const std::string& from, const std::string& to);

  // What one end of a stream is told, in its life.
  template <typename In>
  struct End {
    std::function<void(const In&)> received;
    std::function<void()> closed;
  };
  using LowerEnd = End<capstan::type::v1::SessionDown>;
  using UpperEnd = End<capstan::type::v1::SessionUp>;

  // The lower side dials. `accept` runs on the upper side, if it is reached: it returns its end, or
  // an end without functions to refuse. `done` runs on the lower side: null if it failed.
  void Dial(Process* lower, Process* upper, const LowerEnd& lower_end,
            const std::function<UpperEnd(std::shared_ptr<Pipe>)>& accept,
            const std::function<void(std::shared_ptr<Pipe>)>& done);

  // A call with a deadline of 10 s: `serve` runs on `to`, perhaps late or twice; `reply` may be
  // called in the same life later. `done` runs once on `from`.
  template <typename T>
  void Call(Process* from, Process* to,
            const std::function<void(std::function<void(absl::StatusOr<T>)> reply)>& serve,
            std::function<void(absl::StatusOr<T>)> done) {
    auto finished = std::make_shared<bool>(false);
    const int64_t from_life = from->life();
    auto finish = [from, from_life, finished, done = std::move(done)](absl::StatusOr<T> result) {
      from->Run(from_life, [finished, done, result = std::move(result)] {
        if (std::exchange(*finished, true)) return;
        done(result);
      });
    };
    world_->After(absl::Seconds(10),
                  [finish] { finish(absl::DeadlineExceededError("simulated deadline")); });
    const bool twice = doubling_ && world_->random().OneIn(3);
    if (twice) world_->Fault("duplicate");
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
      Bring(from->name(), to->name(), [this, from, to, serve, finish] {
        if (!Passes(from->name(), to->name()) || !to->up()) {
          world_->After(absl::Milliseconds(5),
                        [finish] { finish(absl::UnavailableError("simulated: not reached")); });
          return;
        }
        to->Run(to->life(), [this, from, to, serve, finish] {
          serve([this, from, to, finish](absl::StatusOr<T> result) {
            if (!Passes(to->name(), from->name())) return;
            Bring(to->name(), from->name(),
                  [finish, result = std::move(result)] { finish(result); });
          });
        });
      });
    }
  }

 private:
  // Calls, or answers, from one process to another.
  struct Traffic {
    int64_t sent = 0;
    int64_t newest = 0;  // that has arrived
  };

  // A call or an answer arrives, perhaps out of its turn.
  void Bring(const std::string& from, const std::string& to, std::function<void()> arrive);

  World* const world_;
  std::set<std::pair<std::string, std::string>> cuts_;
  absl::Duration slowest_ = kSlowest;
  std::map<std::string, absl::Duration> slow_peers_;
  bool doubling_ = false;
  bool reordering_ = false;
  std::map<std::pair<std::string, std::string>, Traffic> traffic_;
  Tap* tap_ = nullptr;
};

// One stream. Each end learns of the other's death by a close if the network lets it pass, else by
// silence after half a minute; until then what it sends goes nowhere.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  const std::string& lower() const { return lower_->name(); }
  const std::string& upper() const { return upper_->name(); }

  void SendUp(capstan::type::v1::SessionUp message);
  void SendDown(capstan::type::v1::SessionDown message);
  // From that end's own side; the other end is told, after what was sent before.
  void CloseLower();
  void CloseUpper();

 private:
  friend class Network;
  template <typename Message>
  struct Direction {
    // A message, or the close of the sending end.
    struct Item {
      absl::Duration due;
      bool close = false;
      Message message;
    };
    std::deque<Item> items;
    bool pumping = false;
  };

  Pipe(Network* network, Process* lower, Process* upper);
  void Watch();
  void PumpUp();
  void PumpDown();
  void LowerGone();
  void UpperGone();
  bool LowerAlive() const { return lower_->up() && lower_->life() == lower_life_; }
  bool UpperAlive() const { return upper_->up() && upper_->life() == upper_life_; }

  Network* const network_;
  Process* const lower_;
  Process* const upper_;
  const int64_t lower_life_;
  const int64_t upper_life_;
  bool lower_open_ = true;
  bool upper_open_ = true;
  absl::Duration heard_ = absl::ZeroDuration();
  Network::LowerEnd lower_end_;
  Network::UpperEnd upper_end_;
  Direction<capstan::type::v1::SessionUp> up_;
  Direction<capstan::type::v1::SessionDown> down_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_NETWORK_H_
