#include "libs/auth/policy_enforcer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/time/clock.h"
#include "proto/capstan/credentials/v1/project.pb.h"

namespace capstan::auth {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);

}  // namespace

PolicyEnforcer::PolicyEnforcer(Options options, Deps deps)
    : options_(std::move(options)),
      deps_(deps),
      age_(deps_.metrics->AddGauge("policy_age_seconds", "Time since the policy came in.")),
      revision_(deps_.metrics->AddGauge("policy_revision", "Revision of the policy in force.")),
      expired_(
          deps_.metrics->AddGauge("policy_expired", "1 while no policy decides about people.")),
      revoked_(deps_.metrics->AddCounter("calls_revoked_total",
                                         "Open calls whose caller lost its right.")) {
  age_.Set(-1);
  expired_.Set(1);
}

PolicyEnforcer::~PolicyEnforcer() {
  deps_.holder->OnChange(nullptr);
  if (timer_ != 0) deps_.strand->Cancel(timer_);
}

absl::Status PolicyEnforcer::LoadKept() {
  struct stat file = {};
  if (options_.file.empty()) return absl::OkStatus();
  if (stat(options_.file.c_str(), &file) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "reading", options_.file);
  }
  std::ifstream in(options_.file, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  credentials::v1::PolicySnapshot denials;
  if (!in.good() || !denials.ParseFromString(bytes)) {
    return status::Error(absl::StatusCode::kDataLoss, "DENY_LIST_DAMAGED",
                         absl::StrCat("`", options_.file,
                                      "` holds no deny list; remove it once credentials can be "
                                      "reached, which sends a new one."),
                         {{"file", options_.file}});
  }
  const Now now = deps_.strand->clock().Read();
  const absl::Duration age =
      std::max(absl::ZeroDuration(), now.wall - absl::TimeFromTimespec(file.st_mtim));
  deps_.holder->Set(Policy::Kept(denials, now.boot - age));
  kept_ = std::move(bytes);
  deps_.log->Info("deny list of an earlier run in force",
                  {{"revision", denials.revision()}, {"age", absl::FormatDuration(age)}});
  return absl::OkStatus();
}

void PolicyEnforcer::Start() {
  deps_.holder->OnChange([this] {
    Recheck();
    Keep();
  });
  Look();
}

void PolicyEnforcer::Look() {
  Recheck();
  const Now now = deps_.strand->clock().Read();
  const std::shared_ptr<const Policy> policy = deps_.holder->Get();
  if (policy != nullptr) {
    age_.Set(absl::ToDoubleSeconds(now.boot - policy->received()));
    revision_.Set(static_cast<double>(policy->revision()));
  }
  expired_.Set(policy == nullptr || policy->expires() <= now.boot ? 1 : 0);
  timer_ = deps_.strand->RunAfter(kLookEvery, [this] { Look(); });
}

void PolicyEnforcer::Recheck() {
  const PolicyAccess::Revocations done = deps_.access->RecheckOpenCalls();
  if (done.revoked == 0) return;
  revoked_.Increment(done.revoked);
  deps_.log->Info("open calls revoked", {{"calls", done.revoked}});
}

void PolicyEnforcer::Keep() {
  if (options_.file.empty()) return;
  const std::shared_ptr<const Policy> policy = deps_.holder->Get();
  if (policy == nullptr) return;
  std::string bytes = policy->Denials().SerializeAsString();
  if (bytes == kept_) return;
  const absl::Status written = WriteFileAtomically(options_.file, bytes, 0600);
  if (!written.ok()) {
    deps_.log->Warning("the deny list is in force, but not kept for the next start",
                       {{"error", written}});
    return;
  }
  kept_ = std::move(bytes);
}

}  // namespace capstan::auth
