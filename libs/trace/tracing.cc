#include "libs/trace/tracing.h"

#include <fcntl.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/trace/otlp_sender.h"

namespace capstan::trace {
namespace {

constexpr size_t kQueuedSpans = 4096;
constexpr size_t kMostAuthorityBytes = 16 << 20;

// Never empty: an empty one would leave nobody to trust.
absl::StatusOr<std::string> ReadAuthorities(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  absl::StatusOr<std::string> pem = absl::InternalError("cannot be opened");
  if (fd.valid()) pem = ReadAll(fd.get(), kMostAuthorityBytes, path);
  if (pem.ok() && !pem->empty()) return pem;
  return status::Error(absl::StatusCode::kFailedPrecondition, "CA_FILE_UNREADABLE",
                       absl::StrCat("`", path,
                                    "`, the traces' ca_file, cannot be read or is empty; "
                                    "expected a PEM file of certificates"),
                       {{"file", path}});
}

Tracer::Options OptionsOf(const config::v1::Traces& config) {
  return {.ratio = config.has_ratio() ? config.ratio() : 1,
          .background_ratio = config.background_ratio()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracing>> Tracing::Open(const config::v1::Traces& config,
                                                       Deps deps) {
  auto tracing = absl::WrapUnique(new Tracing(deps));
  const uint64_t seed = tracing->random_.Next();
  if (config.otlp_address().empty()) {
    tracing->tracer_ = std::make_shared<Tracer>(OptionsOf(config), deps.clock, seed, nullptr);
    return tracing;
  }
  absl::optional<std::string> authorities;
  if (!config.ca_file().empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(authorities, ReadAuthorities(config.ca_file()));
  }
  const SpanCounters counters(deps.metrics);
  tracing->queue_ = std::make_unique<SpanQueue>(kQueuedSpans, counters.queue_full);
  tracing->tracer_ =
      std::make_shared<Tracer>(OptionsOf(config), deps.clock, seed, tracing->queue_.get());
  tracing->strand_ = std::make_unique<ThreadStrand>("traces", deps.clock);
  tracing->exporter_ = std::make_unique<Exporter>(
      Exporter::Options(),
      Exporter::Deps{
          .strand = tracing->strand_.get(),
          .random = &tracing->random_,
          .queue = tracing->queue_.get(),
          .log = deps.log,
          .send = MakeOtlpSender(config.otlp_address(), authorities, tracing->strand_.get())},
      counters, std::move(deps.resource));
  tracing->strand_->Post([exporter = tracing->exporter_.get()] { exporter->Start(); });
  return tracing;
}

Tracing::~Tracing() {
  if (tracer_ != nullptr) tracer_->Close();
  if (strand_ != nullptr) strand_->Stop();
}

void Tracing::Close(absl::Duration within) {
  if (exporter_ == nullptr) return;
  const auto closed = std::make_shared<absl::Notification>();
  strand_->Post(
      [exporter = exporter_.get(), closed] { exporter->Close([closed] { closed->Notify(); }); });
  closed->WaitForNotificationWithTimeout(within);
}

}  // namespace capstan::trace
