#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_MIG_AMOUNTS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_MIG_AMOUNTS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "libs/mig/layouts.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::scheduler {

// A MIG instance on a Node.
struct MigSpot {
  // Number of the GPU.
  int gpu = 0;
  // In mig::DeviceModels(), and in StateTable::positions() of that.
  int model = 0;
  int position = 0;

  friend auto operator<=>(const MigSpot&, const MigSpot&) = default;
};

// absl::nullopt if there is no such model or profile.
absl::optional<mig::Ask> AskOf(const capstan::type::v1::MigSlice& slice);
// absl::nullopt if there is no such instance of any GPU.
absl::optional<MigSpot> SpotOf(const capstan::type::v1::MigInstance& instance);
// The memory slice at which it begins.
int StartOf(const MigSpot& spot);

// A GPU in MIG mode, with what stands on it.
struct MigGpuState {
  int gpu = 0;
  int model = 0;
  mig::Instances instances;
};

// What there is of GPUs in MIG mode, what Tasks have of them, and what they ask for: the part of
// Amounts that is no number. Adds up like those, so that what is free on a Node is what there is
// less what is held: GPUs once, and instances so often below 0.
class MigAmounts {
 public:
  bool empty() const { return entries_.empty(); }

  void AddGpu(int gpu, int model, int64_t times = 1) { AddTo({gpu, model, kGpu}, times); }
  void AddInstance(const MigSpot& spot, int64_t times = 1) {
    AddTo({spot.gpu, spot.model, spot.position}, times);
  }
  // What a Task asks for that has no instance yet.
  void AddAsk(const mig::Ask& ask, int64_t times = 1) {
    AddTo({kNowhere, ask.model, ask.profile}, times);
  }
  void Add(const MigAmounts& other, int64_t times);

  // Of what one Task asks for.
  absl::optional<mig::Ask> ask() const;
  // What is held, of amounts that are (above 0).
  std::vector<MigSpot> Instances() const;
  // The GPUs that there are, of amounts that are free, by number.
  std::vector<MigGpuState> Gpus() const;

  // How many of `each`, at most `limit`: of an ask what all GPUs take, of an instance 1 if it can
  // stand where it is.
  int64_t Fits(const MigAmounts& each, int64_t limit) const;
  // Where the next instance would go; absent if nowhere.
  absl::optional<MigSpot> Choose(const mig::Ask& ask) const;

  friend bool operator==(const MigAmounts&, const MigAmounts&) = default;

 private:
  static constexpr int kGpu = -1;
  static constexpr int kNowhere = -1;

  struct Key {
    // kNowhere: of an ask.
    int gpu = 0;
    int model = 0;
    // kGpu, a position, or of an ask a profile.
    int item = 0;

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void AddTo(const Key& key, int64_t times);

  // By key; none is 0.
  std::vector<std::pair<Key, int64_t>> entries_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_MIG_AMOUNTS_H_
