#ifndef CAPSTAN_SERVICES_TELEMETRY_PORTS_JOB_ARCHIVE_H_
#define CAPSTAN_SERVICES_TELEMETRY_PORTS_JOB_ARCHIVE_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/archive.pb.h"
#include "services/telemetry/core/archive_query.h"

namespace capstan::telemetry {

// Where ended Jobs are kept. Methods may be called from any thread and answer on any.
class JobArchive {
 public:
  // Where a list goes on: behind this Job, in falling order.
  struct Position {
    absl::Time create_time = absl::InfiniteFuture();
    std::string uid{};
  };
  struct Page {
    std::vector<v1::ArchivedJob> jobs;
    // Unset at the end.
    absl::optional<Position> next;
  };

  virtual ~JobArchive() = default;

  // OK once all are on disk, in one transaction. A uid that is there stays as it is. NO_SPACE.
  virtual void Put(std::vector<scheduler::v1::Job> jobs,
                   absl::AnyInvocable<void(absl::Status)> done) = 0;
  // The newest of the name, or the one of it with the uid. NOT_FOUND.
  virtual void Get(std::string name, std::string uid,
                   absl::AnyInvocable<void(absl::StatusOr<v1::ArchivedJob>)> done) = 0;
  // At most `limit` Jobs of the project, newest first; a page may hold less, even nothing, when
  // much had to be looked at.
  virtual void List(std::string project, ArchiveFilter filter, Position after, int limit,
                    absl::AnyInvocable<void(absl::StatusOr<Page>)> done) = 0;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_PORTS_JOB_ARCHIVE_H_
