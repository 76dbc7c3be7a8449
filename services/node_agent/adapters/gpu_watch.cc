#include "services/node_agent/adapters/gpu_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"

namespace capstan::node_agent {
namespace {

// `2 nvidia.com/h100-80gb, GPU 3 for slices of H100-80GB`.
std::string InWords(const FoundGpus& found) {
  std::vector<std::string> words;
  for (const auto& [name, count] : found.accelerators) {
    words.push_back(absl::StrCat(count, " ", name));
  }
  for (const auto& gpu : found.mig_gpus) {
    words.push_back(absl::StrCat("GPU ", gpu.index(), " for slices of ", gpu.model()));
  }
  return words.empty() ? "none" : absl::StrJoin(words, ", ");
}

}  // namespace

class GpuWatch::Asking {
 public:
  explicit Asking(Open open) : open_(std::move(open)) {}

  absl::StatusOr<std::vector<gpu::Gpu>> List() {
    if (inventory_ == nullptr) {
      auto opened = open_();
      if (!opened.ok()) return opened.status();
      inventory_ = *std::move(opened);
    }
    auto gpus = inventory_->List();
    // The driver may have been replaced under it.
    if (!gpus.ok()) inventory_.reset();
    return gpus;
  }

 private:
  const Open open_;
  std::unique_ptr<gpu::DeviceInventory> inventory_;
};

GpuWatch::GpuWatch(Options options, Open open, Strand* strand, Strand* driver,
                   const log::Logger* logger)
    : options_(options),
      strand_(strand),
      driver_(driver),
      logger_(logger),
      asking_(std::make_shared<Asking>(std::move(open))) {}

GpuWatch::~GpuWatch() {
  if (patience_ != 0) strand_->Cancel(patience_);
}

void GpuWatch::Look(Callback done) {
  waiting_.push_back(std::move(done));
  const BootTime now = strand_->clock().Read().boot;
  const std::weak_ptr<char> alive = alive_;
  const bool was_asking = std::exchange(is_asking_, true);
  if (!was_asking) {
    asked_at_ = now;
    driver_->Post([this, alive, asking = asking_, strand = strand_] {
      strand->Post([this, alive, gpus = asking->List()] {
        if (!alive.expired()) Answered(gpus);
      });
    });
  }
  if (patience_ != 0) return;
  // Whoever asks while it hangs already need not find that out anew.
  const absl::Duration wait =
      was_asking && now - asked_at_ >= options_.patience ? absl::ZeroDuration() : options_.patience;
  patience_ = strand_->RunAfter(wait, [this, alive] {
    if (!alive.expired()) GiveUp();
  });
}

void GpuWatch::Answered(const absl::StatusOr<std::vector<gpu::Gpu>>& gpus) {
  is_asking_ = false;
  const std::string words =
      gpus.ok() ? "" : absl::StrCat(status::Reason(gpus.status()), ": ", gpus.status().message());
  if (words != std::exchange(driver_words_, words) && !gpus.ok()) {
    logger_->Warning("no GPUs can be found", {{"cause", gpus.status()}});
  }
  Take(gpus.ok() ? OfferGpus(*gpus) : FoundGpus());
  AnswerAll();
}

void GpuWatch::GiveUp() {
  patience_ = 0;
  if (strand_->clock().Read().boot - asked_at_ >= options_.silent_after) {
    const std::string words = "silent";
    if (words != std::exchange(driver_words_, words)) {
      logger_->Warning("no GPUs are offered: their driver does not answer; see the kernel's log",
                       {{"for", options_.silent_after}});
    }
    Take(FoundGpus());
  }
  AnswerAll();
}

void GpuWatch::Take(FoundGpus found) {
  for (const std::string& why : found.left_out) {
    if (std::find(last_.left_out.begin(), last_.left_out.end(), why) == last_.left_out.end()) {
      logger_->Warning("a GPU is left out", {{"why", why}});
    }
  }
  last_ = std::move(found);
  const std::string words = InWords(last_);
  if (words != std::exchange(offered_words_, words)) {
    logger_->Info("GPUs offered", {{"gpus", words}});
  }
}

void GpuWatch::AnswerAll() {
  if (patience_ != 0) strand_->Cancel(patience_);
  patience_ = 0;
  for (Callback& done : std::exchange(waiting_, {})) done(last_);
}

}  // namespace capstan::node_agent
