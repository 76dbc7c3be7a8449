#include "services/scheduler/api/simulation_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/resource/name.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;

// The alternative by itself.
pb::SimulatePlacementRequest RequestOf(const CoreConfig& config,
                                       const pb::SimulateChangesRequest& request, int index) {
  const pb::SimulateChangesRequest::Alternative& alternative = request.alternatives(index);
  pb::SimulatePlacementRequest one;
  one.set_parent(request.parent());
  *one.mutable_jobs() = alternative.jobs();
  *one.mutable_node_changes() = alternative.node_changes();
  return WithDefaults(config, std::move(one));
}

// What is wrong with one alternative, by the paths of the whole request.
void AddViolations(int index, const std::vector<status::FieldViolation>& violations,
                   status::FieldErrors* errors) {
  for (const status::FieldViolation& violation : violations) {
    errors->Add(absl::StrCat("alternatives[", index, "].", violation.field), violation.description);
  }
}

// One SimulateChanges stream.
class ChangesStream final : public BatchSimulations::Asker,
                            public std::enable_shared_from_this<ChangesStream> {
 public:
  using Writer = std::shared_ptr<rpc::ServerStreamWriter<pb::SimulateChangesResponse>>;

  ChangesStream(Strand* strand, BatchSimulations* batches, Writer writer)
      : strand_(strand), batches_(batches), writer_(std::move(writer)) {}

  void Start(BatchSimulations::Batch batch) {
    batches_->Simulate(std::move(batch), shared_from_this());
    writer_->NotifyClosed(strand_,
                          [self = shared_from_this()] { self->batches_->CallOff(self.get()); });
  }

  void Take(int index, absl::StatusOr<pb::SimulatePlacementResponse> response,
            const BatchSimulations::Basis& basis, Strand::Task read) override {
    pb::SimulateChangesResponse message = Message(basis);
    pb::SimulateChangesResponse::Answer& answer = *message.mutable_answer();
    answer.set_index(index);
    if (response.ok()) {
      *answer.mutable_response() = *std::move(response);
    } else {
      status::FieldErrors errors;
      AddViolations(index, status::GetFieldViolations(response.status()), &errors);
      *answer.mutable_error() =
          rpc::ToStatusProto(errors.ok() ? response.status() : errors.ToStatus());
    }
    if (Write(std::move(message))) writer_->NotifyDrained(strand_, std::move(read));
  }
  void Done(const BatchSimulations::Summary& summary,
            const BatchSimulations::Basis& basis) override {
    pb::SimulateChangesResponse message = Message(basis);
    message.mutable_summary()->set_simulated_count(summary.simulated);
    message.mutable_summary()->set_refused_count(summary.refused);
    *message.mutable_summary()->mutable_cpu_time() = ToProto(summary.cpu);
    if (Write(std::move(message))) writer_->Finish(absl::OkStatus());
  }
  void Failed(const absl::Status& why) override { writer_->Finish(why); }

 private:
  static pb::SimulateChangesResponse Message(const BatchSimulations::Basis& basis) {
    pb::SimulateChangesResponse message;
    *message.mutable_state_time() = ToProto(basis.time);
    message.set_state_revision(basis.revision);
    return message;
  }
  // False if the call is over.
  bool Write(pb::SimulateChangesResponse message) {
    const absl::Status written = writer_->Write(std::move(message));
    if (!written.ok()) writer_->Finish(written);
    return written.ok();
  }

  Strand* const strand_;
  BatchSimulations* const batches_;
  const Writer writer_;
};

}  // namespace

absl::Status ValidateSimulateChanges(const CoreConfig& config,
                                     const pb::SimulateChangesRequest& request) {
  status::FieldErrors errors;
  if (!resource::ProjectName::Parse(request.parent()).ok()) {
    errors.Add("parent", absl::StrCat("is `", request.parent(), "`; expected ",
                                      resource::ProjectName::kPattern));
    return errors.ToStatus();
  }
  if (request.alternatives_size() < 1 || request.alternatives_size() > kMaxAlternatives) {
    errors.Add("alternatives", absl::StrCat("has ", request.alternatives_size(),
                                            " entries; expected 1 to ", kMaxAlternatives));
    return errors.ToStatus();
  }
  int dependencies = 0;
  for (int i = 0; i < request.alternatives_size(); ++i) {
    status::FieldErrors own;
    ValidateSimulatePlacement(config, RequestOf(config, request, i), &own);
    AddViolations(i, own.violations(), &errors);
    for (const pb::JobSpec& spec : request.alternatives(i).jobs()) {
      dependencies += spec.after_size();
    }
  }
  if (dependencies > kMaxAlternativeDependencies) {
    errors.Add("alternatives", absl::StrCat("have Jobs with ", dependencies,
                                            " entries of `after` in all; expected at most ",
                                            kMaxAlternativeDependencies));
  }
  return errors.ToStatus();
}

grpc::ServerWriteReactor<pb::SimulateChangesResponse>* SimulationService::SimulateChanges(
    grpc::CallbackServerContext* context, const pb::SimulateChangesRequest* request) {
  return rpc::HandleServerStream<pb::SimulateChangesResponse>(
      context, deps_.access, "/capstan.scheduler.v1.SimulationService/SimulateChanges", request,
      [this](const pb::SimulateChangesRequest& r) { return ValidateSimulateChanges(config_, r); },
      [this](ChangesStream::Writer writer, const pb::SimulateChangesRequest& r) {
        BatchSimulations::Batch batch;
        for (int i = 0; i < r.alternatives_size(); ++i) {
          batch.alternatives.push_back(RequestOf(config_, r, i));
        }
        batch.submitter = writer->caller().Name();
        batch.allow_leader = r.allow_leader();
        auto stream = std::make_shared<ChangesStream>(deps_.strand, batches_, std::move(writer));
        deps_.strand->Post([this, stream, batch = std::move(batch)]() mutable {
          deps_.view->WhenAtLeast(
              deps_.engine->committed_revision(),
              [stream, batch = std::move(batch)]() mutable { stream->Start(std::move(batch)); });
        });
      });
}

}  // namespace capstan::scheduler
