// A policy as it may come from a wrong or restored store: nobody gets a right that no binding
// gives, who is denied stays so, and denials that were kept say the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/auth/policy.h"
#include "libs/auth/spiffe_id.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/time/clock.h"
#include "proto/capstan/credentials/v1/project.pb.h"

namespace {

using capstan::BootTime;
using capstan::auth::Policy;
using capstan::auth::SpiffeId;
using capstan::credentials::v1::PolicySnapshot;
using capstan::fuzzing::Require;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::fuzzing::FuzzInput input(data, size);
  const std::vector<std::string> words = {"spiffe://x.local/person/alice",
                                          "/person/alice",
                                          "/node/c/",
                                          "spiffe://x.local/node/c/n",
                                          "projects/p/roleBindings/b",
                                          "roleBindings/b",
                                          "projects//roleBindings/b",
                                          "person/alice",
                                          "p",
                                          "alice",
                                          "jobs.create",
                                          "07",
                                          ""};
  const auto snapshot = capstan::fuzzing::MakeMessage<PolicySnapshot>(words, &input);
  const BootTime now = BootTime() + absl::Hours(1);
  const Policy policy(snapshot, now);
  Require(policy.received() == now);
  const auto kept = Policy::Kept(policy.Denials(), now);
  for (const char* id : {"spiffe://x.local/person/alice", "spiffe://x.local/node/c/n",
                         "spiffe://x.local/svc/scheduler"}) {
    const absl::StatusOr<SpiffeId> caller = SpiffeId::Parse(id);
    if (!caller.ok()) continue;
    for (const char* serial : {"07", "08"}) {
      Require(kept->IsDenied(*caller, serial) == policy.IsDenied(*caller, serial));
    }
  }
  for (const std::string& person : words) {
    size_t bindings = 0;
    for (const auto& binding : snapshot.role_bindings()) {
      if (binding.member() != "person/" + person) continue;
      const absl::string_view name = binding.name();
      const bool of_project = absl::StartsWith(name, "projects/") &&
                              !absl::StartsWith(name, "projects//") && name.size() > 9;
      bindings += of_project || absl::StartsWith(name, "roleBindings/") ? 1 : 0;
    }
    Require(policy.RolesOf(person).size() == bindings);
    for (const char* permission : {"jobs.create", "policy.edit", "nodes.drain", ""}) {
      Require(!kept->Gives(person, permission, "p"));
      bool everywhere = false;
      const std::vector<std::string> projects =
          policy.ProjectsWith(person, permission, &everywhere);
      for (const std::string& project : projects) {
        Require(policy.Gives(person, permission, project));
      }
      if (everywhere) Require(policy.Gives(person, permission, ""));
      if (policy.RolesOf(person).empty()) Require(!policy.Gives(person, permission, "p"));
    }
  }
  return 0;
}
