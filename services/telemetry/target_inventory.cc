#include "services/telemetry/target_inventory.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/address/host_port.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::telemetry {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(5);
// Above what the bounds of ScrapeTargets allow.
constexpr size_t kMaxFile = 128 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<TargetInventory>> TargetInventory::Open(
    Options options, Strand* strand, const log::Logger* logger, metrics::Registry* registry) {
  core::ScrapeTargetList kept;
  const UniqueFd fd(open(options.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.valid()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd.get(), kMaxFile, options.path));
    if (!kept.ParseFromString(bytes)) {
      return status::Error(absl::StatusCode::kDataLoss, "SCRAPE_TARGETS_CORRUPT",
                           absl::StrCat("'", options.path,
                                        "' can't be parsed; remove it: every process reports "
                                        "itself again within 30 s"));
    }
  } else if (errno != ENOENT) {
    return ErrnoStatus(errno, "opening", options.path);
  }
  auto inventory = std::unique_ptr<TargetInventory>(
      new TargetInventory(std::move(options), strand, logger, registry));
  {
    absl::MutexLock lock(&inventory->mutex_);
    inventory->targets_.Load(kept, strand->clock().Read().boot);
  }
  strand->Post([inventory = inventory.get()] { inventory->Look(); });
  return inventory;
}

TargetInventory::TargetInventory(Options options, Strand* strand, const log::Logger* logger,
                                 metrics::Registry* registry)
    : options_(std::move(options)),
      strand_(strand),
      logger_(logger),
      count_(registry->AddGauge("scrape_targets", "Processes that Prometheus is told to scrape.")),
      refused_(
          registry->AddCounter("scrape_targets_refused_total",
                               "Reports of a metrics address that can't be reached from here.")),
      targets_(options_.forget_after) {}

TargetInventory::~TargetInventory() {
  absl::Notification done;
  strand_->Post([&] {
    strand_->Cancel(timer_);
    Write();
    done.Notify();
  });
  done.WaitForNotification();
}

absl::Status TargetInventory::Report(const auth::SpiffeId& caller,
                                     const v1::ReportScrapeTargetRequest& request) {
  if (address::IsLoopback(request.metrics_address()) &&
      request.loopback_network() != options_.loopback_network) {
    refused_.Increment();
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "METRICS_UNREACHABLE",
        absl::StrCat("the metrics at ", request.metrics_address(),
                     " can't be reached from telemetry's machine: set process.metrics_listen, or "
                     "process.monitoring.metrics_advertise, to an address that Prometheus reaches"),
        {{"address", request.metrics_address()}});
  }
  absl::MutexLock lock(&mutex_);
  CAPSTAN_ASSIGN_OR_RETURN(const bool changed,
                           targets_.Report(caller, request, strand_->clock().Read().boot));
  changed_ |= changed;
  count_.Set(static_cast<double>(targets_.size()));
  return absl::OkStatus();
}

core::ScrapeTargetList TargetInventory::List() const {
  absl::MutexLock lock(&mutex_);
  return targets_.List();
}

void TargetInventory::Write() {
  std::string bytes;
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(changed_, false)) return;
    bytes = targets_.List().SerializeAsString();
  }
  const absl::Status written = WriteFileAtomically(options_.path, bytes, 0600);
  if (written.ok()) return;
  logger_->Error("scrape targets not written", {{"error", written}});
  absl::MutexLock lock(&mutex_);
  changed_ = true;
}

void TargetInventory::Look() {
  {
    absl::MutexLock lock(&mutex_);
    changed_ |= targets_.Forget(strand_->clock().Read().boot);
    count_.Set(static_cast<double>(targets_.size()));
  }
  Write();
  timer_ = strand_->RunAfter(kLookEvery, [this] { Look(); });
}

}  // namespace capstan::telemetry
