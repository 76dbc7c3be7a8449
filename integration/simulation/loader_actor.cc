#include "integration/simulation/loader_actor.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan::simulation {

namespace pb = ::capstan::dataloader::v1;

void LoaderActor::OnStart() {
  core_ = std::make_unique<data_loader::LoaderCore>(
      data_loader::LoaderConfig{.site = "sites/shared", .clusters = {}});
  for (const store::KeyValue& kv : disk_.Read()) {
    if (!core_->Load(kv).ok()) world().Violate("loader: a record can't be loaded");
  }
  pipe_ =
      std::make_unique<CommitPipe>(this, &disk_, CommitPipe::BehindIf(mutants_->loader_acts_first));
  Submit(core_->Resume(), [] {});
}

void LoaderActor::OnCrash() {
  pipe_->Crash();
  pipe_.reset();
  core_.reset();
}

void LoaderActor::Submit(data_loader::Step step, std::function<void()> stored,
                         std::function<void()> written) {
  pipe_->Submit(
      std::move(step.puts), std::move(step.deletes),
      [stored = std::move(stored)](int64_t) { stored(); }, std::move(written));
}

void LoaderActor::OpenOutput(const pb::OpenOutputRequest& request,
                             const Reply<pb::OpenOutputResponse>& reply) {
  if (mutants_->output_not_opened) {
    // The newest checkpoint, read without raising the generation above the first.
    pb::OpenOutputRequest first = request;
    first.set_generation(1);
    auto opened = core_->OpenOutput(first);
    if (!opened.ok()) return reply(opened.status());
    opened->response.set_staging_root(absl::StrCat("/site/outputs/", request.job_uid()));
    return Submit(std::move(opened->step),
                  [reply, response = opened->response] { reply(response); });
  }
  auto opened = core_->OpenOutput(request);
  if (!opened.ok()) return reply(opened.status());
  opened->response.set_staging_root(
      absl::StrCat("/site/outputs/", request.job_uid(), "/staging-", request.generation()));
  Submit(std::move(opened->step), [reply, response = opened->response] { reply(response); });
}

void LoaderActor::CommitOutput(const pb::CommitOutputRequest& request,
                               Reply<pb::CommitOutputResponse> reply) {
  pb::CommitOutputRequest asked = request;
  // With the mutant every generation writes as the first, which is the one left open.
  if (mutants_->output_not_opened) asked.set_generation(1);
  const auto before = core_->CheckCommit(asked);
  if (!before.ok()) return reply(before.status());
  if (before->has_value() && !mutants_->output_not_opened) {
    // Its record may still be on its way to the disk.
    return Submit({}, [reply, response = **before] { reply(response); });
  }
  // Copying the files takes a while, in which anything may happen.
  Later(world().random().Between(absl::Milliseconds(5), absl::Seconds(2)),
        [this, request, asked, reply = std::move(reply)] {
          data_loader::StagedOutput staged;
          staged.request = asked;
          staged.manifest_digest = "sha256:" + std::string(64, 'a');
          staged.folder = absl::StrCat("outputs/", request.job_uid(), "/g", request.generation(),
                                       "-", ++copies_, "-s", request.checkpoint_step());
          staged.directory = "/site/" + staged.folder;
          auto decided = core_->CommitOutput(staged, Read());
          if (!decided.ok()) return reply(decided.status());
          std::function<void()> written;
          if (request.what_case() == pb::CommitOutputRequest::kCheckpointStep) {
            written = [witness = witness_, request] {
              witness->Committed(request.job_uid(), request.generation(),
                                 request.checkpoint_step());
            };
          }
          Submit(
              std::move(decided->step), [reply, response = decided->response] { reply(response); },
              std::move(written));
        });
}

void LoaderActor::ReleasePins(const std::string& holder, const Reply<bool>& reply) {
  Submit(core_->ReleasePins(holder, "", Read()), [reply] { reply(true); });
}

}  // namespace capstan::simulation
