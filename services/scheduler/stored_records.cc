#include "services/scheduler/stored_records.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/restored_record.h"

namespace capstan::scheduler {
namespace {

class ModelChecker final : public store::ReferenceChecker {
 public:
  absl::Status See(absl::string_view key, absl::string_view value) override {
    return builder_.Apply(key, value);
  }
  absl::Status Finish() override {
    CAPSTAN_RETURN_IF_ERROR(builder_.Resolve());
    const Model& model = builder_.model();
    for (const auto& [uid, job] : model.jobs) {
      const absl::string_view queue = absl::StripPrefix(job.spec.spec().queue(), "queues/");
      if (model.queues.count(std::string(queue)) > 0) continue;
      return status::Error(absl::StatusCode::kDataLoss, "REFERENCE_BROKEN",
                           absl::StrCat(job.spec.name(), " (", uid, ") is in the Queue '", queue,
                                        "', which is not there"),
                           {{"job", job.spec.name()}, {"queue", std::string(queue)}});
    }
    return absl::OkStatus();
  }

 private:
  ModelBuilder builder_;
};

}  // namespace

store::ServiceRecords StoredRecords() {
  store::ServiceRecords records;
  records.service = "scheduler";
  records.kinds = {
      {"jobs/spec/", &rec::JobSpecRecord::default_instance()},
      {"jobs/state/", &rec::JobStateRecord::default_instance()},
      {"gangs/head/", &rec::GangHeadRecord::default_instance()},
      {"gangs/placement/", &rec::PlacementChunkRecord::default_instance()},
      {"tasks/", &rec::TaskChunkRecord::default_instance()},
      {"nodes/", &rec::NodeRecord::default_instance()},
      {"clusters/", &rec::ClusterRecord::default_instance()},
      {"queues/", &rec::QueueRecord::default_instance()},
      {"queue_usage/", &rec::QueueUsageRecord::default_instance()},
      {"capacity_orders/", &rec::CapacityOrderRecord::default_instance()},
      {"maintenance_windows/", &rec::MaintenanceWindowRecord::default_instance()},
      {"requests/", &rec::RequestRecord::default_instance()},
      {"pin_releases/", &rec::PinReleaseRecord::default_instance()},
  };
  records.make_checker = [] { return std::make_unique<ModelChecker>(); };
  records.prepare_restored = PrepareRestoredRecord;
  return records;
}

}  // namespace capstan::scheduler
