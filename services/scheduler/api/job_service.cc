#include "services/scheduler/api/job_service.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/random/timed_uuid.h"
#include "libs/resource/id.h"
#include "libs/resource/name.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/observation.h"
#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "libs/trace/context.h"
#include "services/scheduler/api/body_hash.h"
#include "services/scheduler/api/watch_stream.h"
#include "services/scheduler/core/counterfactuals.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/job_change.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/validate.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

namespace pb = ::capstan::scheduler::v1;

absl::Status CheckJobName(const std::string& field, const std::string& name) {
  status::FieldErrors errors;
  if (!resource::JobName::Parse(name).ok()) {
    errors.Add(field, absl::StrCat("is `", name, "`; expected ", resource::JobName::kPattern));
  }
  return errors.ToStatus();
}

absl::Status CheckParent(const std::string& parent) {
  status::FieldErrors errors;
  if (!resource::ProjectName::Parse(parent).ok()) {
    errors.Add("parent",
               absl::StrCat("is `", parent, "`; expected ", resource::ProjectName::kPattern));
  }
  return errors.ToStatus();
}

// What the id stands for: the request without it.
// `state=RUNNING AND queue=queues/q AND array=projects/p/jobs/j`, in any order.
struct JobFilter {
  pb::Job::State state = pb::Job::STATE_UNSPECIFIED;
  std::string queue;
  std::string array;

  // False only if the Job does not match.
  bool MayMatch(const JobGlance& job) const {
    return (state == pb::Job::STATE_UNSPECIFIED || job.state == state) &&
           (queue.empty() || job.queue == queue) &&
           (array.empty() || (job.is_element && absl::StartsWith(job.name, array)));
  }
  bool Matches(const JobEntry& job) const {
    return (state == pb::Job::STATE_UNSPECIFIED || job.state.state() == state) &&
           (queue.empty() || job.spec.spec().queue() == queue) &&
           (array.empty() || job.spec.element().array() == array);
  }
};

absl::StatusOr<JobFilter> ParseFilter(const std::string& text) {
  JobFilter filter;
  if (text.empty()) return filter;
  status::FieldErrors errors;
  for (absl::string_view term : absl::StrSplit(text, " AND ")) {
    const std::vector<std::string> sides = absl::StrSplit(term, absl::MaxSplits('=', 1));
    if (sides.size() == 2 && sides[0] == "queue" && resource::QueueName::Parse(sides[1]).ok()) {
      filter.queue = sides[1];
    } else if (sides.size() == 2 && sides[0] == "array" &&
               resource::JobName::Parse(sides[1]).ok()) {
      filter.array = sides[1];
    } else if (sides.size() != 2 || sides[0] != "state" ||
               !pb::Job::State_Parse(absl::StrCat("STATE_", sides[1]), &filter.state) ||
               filter.state == pb::Job::STATE_UNSPECIFIED) {
      errors.Add("filter", absl::StrCat("has the term `", term,
                                        "`; expected state=STATE, queue=queues/{queue} or "
                                        "array=projects/{p}/jobs/{array}, joined by ` AND `"));
    }
  }
  if (!errors.ok()) return errors.ToStatus();
  return filter;
}

class JobWatch final : public WatchStream<std::string, pb::WatchJobsResponse> {
 public:
  JobWatch(const ApiDeps& deps, int64_t incarnation, const pb::WatchJobsRequest& request,
           Writer writer)
      : WatchStream(deps, incarnation, resource::PageArguments(request), std::move(writer)),
        parent_(request.parent()),
        job_(request.job()) {}

  void JobsChanged(const std::set<std::string>& uids) override { Changed(uids); }

 private:
  bool Advance(int most, std::vector<std::string>* uids) override {
    if (!job_.empty()) {
      const JobEntry* job = deps().view->model().FindJobByName(job_);
      if (job != nullptr && Matches(job->uid())) uids->push_back(job->uid());
      return false;
    }
    const CommittedView::Submitted& jobs = deps().view->JobsOf(parent_);
    auto next = jobs.upper_bound(past_);
    for (; next != jobs.end() && most > 0; ++next, --most) {
      past_ = next->first;
      std::string uid(IdentityUid(next->second));
      if (Matches(uid)) uids->push_back(std::move(uid));
    }
    return next != jobs.end();
  }
  void Rewind() override { past_ = kNone; }
  size_t Count() const override { return deps().view->JobsOf(parent_).size(); }
  bool IsPast(const std::string& uid) const override {
    const absl::optional<JobGlance> job = deps().view->model().jobs.Glance(uid);
    return job.has_value() && -job->submit_sequence <= past_;
  }
  bool Matches(const std::string& uid) const override {
    const absl::optional<JobGlance> job = deps().view->model().jobs.Glance(uid);
    return job.has_value() && ProjectOf(job->name) == parent_ &&
           (job_.empty() || job->name == job_);
  }
  int64_t Revision(const std::string& uid) const override { return deps().view->JobRevision(uid); }
  void Fill(const std::string& uid, pb::WatchJobsResponse* response) const override {
    *response->mutable_job() = RenderJob(deps().view->model().jobs.find(uid)->second);
  }

  const std::string parent_;
  const std::string job_;
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  // Key in CommittedView::Submitted, newest first.
  int64_t past_ = kNone;
};

}  // namespace

JobService::JobAnswer JobService::Tell(const std::string& caller, JobAnswer answer) {
  return [this, caller, answer = std::move(answer)](absl::StatusOr<pb::Job> job) mutable {
    if (job.ok()) deps_.simulations->ChangedBy(caller, deps_.engine->committed_revision());
    answer(std::move(job));
  };
}

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const pb::CreateJobRequest* request,
                                                pb::Job* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.JobService/CreateJob", request, response,
      [this](const pb::CreateJobRequest& r) {
        absl::Status parent = CheckParent(r.parent());
        if (!parent.ok()) return parent;
        status::FieldErrors errors;
        if (!r.job_id().empty() && !resource::IsValidId(r.job_id())) {
          errors.Add("job_id", absl::StrCat("is `", r.job_id(), "`; expected ", resource::kIdRule));
        }
        if (!resource::ValidateRequestId(r.request_id()).ok()) {
          errors.Add("request_id", absl::StrCat("is `", r.request_id(), "`; expected a UUID4"));
        }
        pb::JobSpec spec = r.job().spec();
        ApplyDefaults(r.parent(), config_, &spec);
        ValidateJobSpec(r.parent(), config_, spec, "job.spec", &errors);
        return errors.ToStatus();
      },
      [this](const rpc::Call& call, const pb::CreateJobRequest& r, pb::Job* response,
             rpc::Finish finish) {
        scheduler::CreateJob event;
        event.project = r.parent();
        event.job_id = r.job_id();
        event.submitter = call.caller.Name();
        event.request_id = r.request_id();
        event.body_hash = BodyHash(r);
        event.validate_only = r.validate_only();
        if (const auto trace = rpc::TraceOf(*call.context); trace.has_value()) {
          event.traceparent = trace::ToTraceparent(*trace);
        }
        event.spec = r.job().spec();
        // Unchecked, and a later version may know them.
        event.spec.DiscardUnknownFields();
        event.hold = r.job().hold();
        ApplyDefaults(r.parent(), config_, &event.spec);
        deps_.strand->Post(
            [this, event = std::move(event), response, finish = std::move(finish)]() mutable {
              event.uid = TimedUuid4(deps_.random, deps_.strand->clock().Read().wall);
              const std::string caller = event.submitter;
              deps_.engine->Call(std::move(event),
                                 Tell(caller, rpc::RespondWith(response, std::move(finish))));
            });
      });
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const pb::GetJobRequest* request, pb::Job* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.JobService/GetJob", request, response,
      [](const pb::GetJobRequest& r) { return CheckJobName("name", r.name()); },
      [this](const rpc::Call&, const pb::GetJobRequest& r, pb::Job* response, rpc::Finish finish) {
        ReadView(deps_, std::move(finish), [&r, response](const CommittedView& view) {
          const JobEntry* job = view.model().FindJobByName(r.name());
          if (job == nullptr) return status::NotFound(r.name());
          *response = RenderJob(*job);
          return absl::OkStatus();
        });
      });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const pb::ListJobsRequest* request,
                                               pb::ListJobsResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.JobService/ListJobs", request, response,
      [](const pb::ListJobsRequest& r) { return CheckParent(r.parent()); },
      [this](const rpc::Call&, const pb::ListJobsRequest& r, pb::ListJobsResponse* response,
             rpc::Finish finish) {
        const std::string arguments = resource::PageArguments(r);
        const auto size = resource::EffectivePageSize(r.page_size());
        if (!size.ok()) return finish(size.status());
        const auto position = deps_.tokens->Open(r.page_token(), arguments);
        if (!position.ok()) return finish(position.status());
        auto filter = ParseFilter(r.filter());
        if (!filter.ok()) return finish(filter.status());
        int64_t after = INT64_MIN;
        if (!position->empty() && !absl::SimpleAtoi(*position, &after)) after = INT64_MIN;
        ReadView(
            deps_, std::move(finish),
            [this, &r, response, arguments, size = *size, filter = *filter,
             after](const CommittedView& view) {
              const auto& jobs = view.JobsOf(r.parent());
              // A page stays below the size of a message, large gangs or not.
              constexpr size_t kMaxPageBytes = 2 << 20;
              size_t bytes = 0;
              int64_t last = after;
              for (auto it = jobs.upper_bound(after); it != jobs.end(); ++it) {
                const auto job = view.model().jobs.find(IdentityUid(it->second));
                if (job == view.model().jobs.end() || !filter.MayMatch(job.glance()) ||
                    !filter.Matches(job->second)) {
                  continue;
                }
                if (response->jobs_size() == size || bytes > kMaxPageBytes) {
                  response->set_next_page_token(deps_.tokens->Seal(absl::StrCat(last), arguments));
                  break;
                }
                *response->add_jobs() = RenderJob(job->second);
                bytes += response->jobs(response->jobs_size() - 1).ByteSizeLong();
                last = it->first;
              }
              return absl::OkStatus();
            });
      });
}

grpc::ServerWriteReactor<pb::WatchJobsResponse>* JobService::WatchJobs(
    grpc::CallbackServerContext* context, const pb::WatchJobsRequest* request) {
  return rpc::HandleServerStream<pb::WatchJobsResponse>(
      context, deps_.access, "/capstan.scheduler.v1.JobService/WatchJobs", request,
      [](const pb::WatchJobsRequest& r) {
        absl::Status parent = CheckParent(r.parent());
        if (!parent.ok() || r.job().empty()) return parent;
        absl::Status job = CheckJobName("job", r.job());
        if (!job.ok()) return job;
        status::FieldErrors errors;
        if (ProjectOf(r.job()) != r.parent()) {
          errors.Add("job", absl::StrCat("is `", r.job(), "`; expected a Job of ", r.parent()));
        }
        return errors.ToStatus();
      },
      [this](std::shared_ptr<rpc::ServerStreamWriter<pb::WatchJobsResponse>> writer,
             const pb::WatchJobsRequest& r) {
        auto watch = std::make_shared<JobWatch>(deps_, incarnation_, r, std::move(writer));
        deps_.strand->Post([this, watch, token = r.resume_token()] {
          deps_.view->WhenAtLeast(deps_.engine->committed_revision(),
                                  [watch, token] { watch->Start(token); });
        });
      });
}

grpc::ServerUnaryReactor* JobService::UpdateJob(grpc::CallbackServerContext* context,
                                                const pb::UpdateJobRequest* request,
                                                pb::Job* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.JobService/UpdateJob", request, response,
      [](const pb::UpdateJobRequest& r) {
        absl::Status name = CheckJobName("job.name", r.job().name());
        if (!name.ok()) return name;
        status::FieldErrors errors;
        ValidateUpdateJob(r, &errors);
        return errors.ToStatus();
      },
      [this](const rpc::Call& call, const pb::UpdateJobRequest& r, pb::Job* response,
             rpc::Finish finish) {
        scheduler::UpdateJob event;
        event.name = r.job().name();
        event.etag = r.job().etag();
        event.validate_only = r.validate_only();
        event.change = JobChangeOf(r);
        event.change.DiscardUnknownFields();
        deps_.strand->Post([this, event = std::move(event), caller = call.caller.Name(), response,
                            finish = std::move(finish)]() mutable {
          deps_.engine->Call(std::move(event),
                             Tell(caller, rpc::RespondWith(response, std::move(finish))));
        });
      });
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const pb::CancelJobRequest* request,
                                                pb::Job* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.JobService/CancelJob", request, response,
      [](const pb::CancelJobRequest& r) { return CheckJobName("name", r.name()); },
      [this](const rpc::Call& call, const pb::CancelJobRequest& r, pb::Job* response,
             rpc::Finish finish) {
        deps_.strand->Post([this, event = scheduler::CancelJob{0, r.name(), r.etag()},
                            caller = call.caller.Name(), response,
                            finish = std::move(finish)]() mutable {
          deps_.engine->Call(std::move(event),
                             Tell(caller, rpc::RespondWith(response, std::move(finish))));
        });
      });
}

grpc::ServerUnaryReactor* JobService::ExplainJob(grpc::CallbackServerContext* context,
                                                 const pb::ExplainJobRequest* request,
                                                 pb::ExplainJobResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.JobService/ExplainJob", request, response,
      [](const pb::ExplainJobRequest& r) { return CheckJobName("name", r.name()); },
      [this](const rpc::Call&, const pb::ExplainJobRequest& r, pb::ExplainJobResponse* response,
             rpc::Finish finish) {
        ReadView(deps_, std::move(finish), [this, &r, response](const CommittedView& view) {
          const JobEntry* job = view.model().FindJobByName(r.name());
          if (job == nullptr) return status::NotFound(r.name());
          const absl::Time now = deps_.strand->clock().Read().wall;
          const auto standings = Standings(view.model(), view.usage(), {}, {}, now);
          *response = ExplainWhole(view.model(), view.usage(), *job, standings, config_, now);
          return absl::OkStatus();
        });
      });
}

grpc::ServerUnaryReactor* JobService::SimulatePlacement(grpc::CallbackServerContext* context,
                                                        const pb::SimulatePlacementRequest* request,
                                                        pb::SimulatePlacementResponse* response) {
  return rpc::HandleUnary(
      context, deps_.access, "/capstan.scheduler.v1.JobService/SimulatePlacement", request,
      response,
      [this](const pb::SimulatePlacementRequest& r) {
        absl::Status parent = CheckParent(r.parent());
        if (!parent.ok()) return parent;
        status::FieldErrors errors;
        ValidateSimulatePlacement(config_, WithDefaults(config_, r), &errors);
        return errors.ToStatus();
      },
      [this](const rpc::Call& call, const pb::SimulatePlacementRequest& r,
             pb::SimulatePlacementResponse* response, rpc::Finish finish) {
        auto simulate = [this, asked = WithDefaults(config_, r), submitter = call.caller.Name(),
                         answer = rpc::RespondWith(response, std::move(finish))]() mutable {
          deps_.simulations->Simulate(std::move(asked), std::move(submitter), std::move(answer));
        };
        deps_.strand->Post([this, simulate = std::move(simulate)]() mutable {
          deps_.view->WhenAtLeast(deps_.engine->committed_revision(), std::move(simulate));
        });
      });
}

}  // namespace capstan::scheduler
