#ifndef CAPSTAN_INTEGRATION_KUBE_BENCH_CLIENT_PROCESS_H_
#define CAPSTAN_INTEGRATION_KUBE_BENCH_CLIENT_PROCESS_H_

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::bench {

// A client that is measured, on the machine's last core, so that neither of two that are compared
// has more of it than the other. It prints a line of JSON for each thing that it has done.
class ClientProcess {
 public:
  // `program` may have arguments of its own before these.
  static absl::StatusOr<std::unique_ptr<ClientProcess>> Start(
      const std::string& program, const std::vector<std::string>& arguments);
  // Waits for its end.
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  // Its next line, once it has come. INTERNAL if it ends first.
  absl::StatusOr<nlohmann::json> NextLine();

 private:
  ClientProcess(std::string command, FILE* output)
      : command_(std::move(command)), output_(output) {}

  const std::string command_;
  FILE* const output_;
};

// One that does a single thing; also shown on stderr.
absl::StatusOr<nlohmann::json> Measure(const std::string& program,
                                       const std::vector<std::string>& arguments);

// What our client and client-go said in each run.
using Runs = std::vector<std::pair<nlohmann::json, nlohmann::json>>;

// Values of one field of each run, and ours by theirs.
struct Compared {
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> ratios;
};
Compared Compare(const Runs& runs, const std::string& field);

}  // namespace capstan::kube::bench

#endif  // CAPSTAN_INTEGRATION_KUBE_BENCH_CLIENT_PROCESS_H_
