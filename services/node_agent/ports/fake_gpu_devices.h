#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_GPU_DEVICES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_GPU_DEVICES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/gpu_devices.h"

namespace capstan::node_agent {

// Answers what tests set.
class FakeGpuDevices final : public GpuDevices {
 public:
  explicit FakeGpuDevices(Strand* strand) : strand_(strand) {}

  void List(Callback<std::vector<WholeGpu>> done) override { Answer(gpus, std::move(done)); }
  void FindMigFiles(int32_t gpu, const std::string& name,
                    Callback<capstan::nodeagent::v1::ShimSpec::Gpus> done) override {
    asked_for.push_back(name);
    capstan::nodeagent::v1::ShimSpec::Gpus files = mig_files;
    files.add_minors(gpu);
    Answer(std::move(files), std::move(done));
  }

  // Answered while not OK.
  absl::Status failure;
  std::vector<WholeGpu> gpus;
  // Of every MIG instance, beside its GPU's own.
  capstan::nodeagent::v1::ShimSpec::Gpus mig_files;
  std::vector<std::string> asked_for;

 private:
  template <typename T>
  void Answer(T value, Callback<T> done) {
    absl::StatusOr<T> answer = failure.ok() ? absl::StatusOr<T>(std::move(value)) : failure;
    strand_->Post([done = std::move(done), answer = std::move(answer)]() mutable { done(answer); });
  }

  Strand* const strand_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_FAKE_GPU_DEVICES_H_
