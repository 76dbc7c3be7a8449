#include "services/data_loader/api/output_upload.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "libs/content/manifest.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/api/commit_request.h"
#include "services/data_loader/api/output_claim.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;
using Before = absl::StatusOr<absl::optional<pb::CommitOutputResponse>>;

absl::Status FieldError(const std::string& field, absl::string_view description) {
  status::FieldErrors errors;
  errors.Add(field, description);
  return errors.ToStatus();
}

struct Question {
  Before answer = absl::UnavailableError("The server is stopping.");
  absl::Notification done;
};

// Says that nobody answers the question any more, answered or not.
class Asked {
 public:
  explicit Asked(std::shared_ptr<Question> question) : question_(std::move(question)) {}
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  ~Asked() { question_->done.Notify(); }

  void Answer(Before answer) { question_->answer = std::move(answer); }

 private:
  const std::shared_ptr<Question> question_;
};

// Asks the engine on its strand and waits.
Before AskEngine(const ApiDeps& deps, const pb::CommitOutputRequest& request) {
  const auto question = std::make_shared<Question>();
  deps.strand->remote().Post([engine = deps.engine, request,
                              asked = std::make_shared<Asked>(question)]() mutable {
    engine->CheckCommit(
        request, [asked = std::move(asked)](Before answer) { asked->Answer(std::move(answer)); });
  });
  question->done.WaitForNotification();
  return question->answer;
}

class Receiver final : public OutputReceiver {
 public:
  Receiver(const ApiDeps& deps, Site* site, pb::CommitOutputRequest request,
           absl::optional<pb::CommitOutputResponse> before)
      : deps_(deps), site_(site), request_(std::move(request)), before_(std::move(before)) {}

  absl::Status Take(const pb::UploadOutputRequest& message) override {
    // It was committed: what still comes is for nobody.
    if (before_.has_value()) return absl::OkStatus();
    switch (message.part_case()) {
      case pb::UploadOutputRequest::kManifest:
        if (writer_ != nullptr) return FieldError("manifest", "comes after content");
        if (manifest_.files_size() + message.manifest().files_size() > content::kMaxManifestFiles) {
          return FieldError("manifest",
                            absl::StrCat("has more than ", content::kMaxManifestFiles, " files"));
        }
        manifest_.MergeFrom(message.manifest());
        has_manifest_ = true;
        return absl::OkStatus();
      case pb::UploadOutputRequest::kChunk:
        CAPSTAN_RETURN_IF_ERROR(OpenWriter());
        return writer_->Write(message.chunk());
      default:
        return FieldError("part", "is neither manifest nor chunk; the header comes first and once");
    }
  }

  void End(Answer answer) override {
    if (before_.has_value()) return answer(*before_);
    const absl::Status opened = OpenWriter();
    if (!opened.ok()) return answer(opened);
    absl::StatusOr<StagedOutput> staged = writer_->Finish();
    if (!staged.ok()) return answer(staged.status());
    deps_.strand->Post([engine = deps_.engine, writer = std::move(writer_),
                        staged = *std::move(staged), answer = std::move(answer)]() mutable {
      engine->OutputReceived(staged, std::move(answer));
    });
  }

 private:
  absl::Status OpenWriter() {
    if (writer_ != nullptr) return absl::OkStatus();
    if (!has_manifest_) return FieldError("manifest", "is absent; it comes after the header");
    const absl::Status checked = content::CheckManifest(manifest_);
    if (!checked.ok()) return FieldError("manifest", checked.message());
    CAPSTAN_ASSIGN_OR_RETURN(writer_, site_->ReceiveOutput(request_, manifest_));
    return absl::OkStatus();
  }

  const ApiDeps deps_;
  Site* const site_;
  const pb::CommitOutputRequest request_;
  const absl::optional<pb::CommitOutputResponse> before_;
  pb::Manifest manifest_;
  bool has_manifest_ = false;
  std::unique_ptr<OutputWriter> writer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OutputReceiver>> OpenOutputUpload(
    const ApiDeps& deps, Site* site, const auth::Caller& caller,
    const pb::UploadOutputRequest& header) {
  if (header.part_case() != pb::UploadOutputRequest::kHeader) {
    return FieldError("header", "is absent; the first message holds it");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckCommit(header.header(), Staging::kUploaded));
  CAPSTAN_RETURN_IF_ERROR(deps.access->CheckPlacement(caller, ClaimOf(header.header())));
  CAPSTAN_ASSIGN_OR_RETURN(absl::optional<pb::CommitOutputResponse> before,
                           AskEngine(deps, header.header()));
  return std::make_unique<Receiver>(deps, site, header.header(), std::move(before));
}

}  // namespace capstan::data_loader
