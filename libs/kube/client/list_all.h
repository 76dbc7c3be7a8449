#ifndef CAPSTAN_LIBS_KUBE_CLIENT_LIST_ALL_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_LIST_ALL_H_

#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/objects/codec.h"
#include "libs/status/error.h"

namespace capstan::kube {

// Above what a cluster is made for: 150,000 Pods (kubernetes.io, "Considerations for large
// clusters").
inline constexpr size_t kMaxListedObjects = 2'000'000;

// Follows a list through its pages. If the server has forgotten the list's version on the way (410)
// it begins anew, since pages of two versions make no list; the third time in one piece, which
// cannot expire. The result is one consistent state: all items, at `resource_version`.
// RESOURCE_EXHAUSTED with reason KUBE_LIST_TOO_LARGE above kMaxListedObjects. For the strand.
template <typename T>
class ListAllCall final : public PendingCall {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<ListPage<T>>)>;
  // Starts the list of one page.
  using ListOne = absl::AnyInvocable<std::unique_ptr<PendingCall>(const ListOptions&, Done)>;

  ListAllCall(ListOptions options, ListOne list_one, Done done)
      : options_(std::move(options)), list_one_(std::move(list_one)), done_(std::move(done)) {
    Begin();
  }

 private:
  static constexpr int kPagedTries = 2;

  void Begin() {
    all_ = ListPage<T>();
    ++tries_;
    ListOptions first = options_;
    if (tries_ > kPagedTries) first.limit = 0;
    Ask(first);
  }

  void Ask(const ListOptions& options) {
    // The callback goes with the call, so that it is destroyed if the client goes. The call before
    // is over.
    page_ = list_one_(options, [this, paged = !options.continue_token.empty(),
                                done = std::move(done_)](absl::StatusOr<ListPage<T>> page) mutable {
      done_ = std::move(done);
      OnPage(paged, std::move(page));
    });
  }

  void OnPage(bool paged, absl::StatusOr<ListPage<T>> page) {
    if (!page.ok()) {
      if (paged && IsExpired(page.status())) {
        Begin();
      } else {
        End(page.status());
      }
      return;
    }
    if (all_.items.size() + page->items.size() > kMaxListedObjects) {
      End(status::Error(absl::StatusCode::kResourceExhausted, "KUBE_LIST_TOO_LARGE",
                        absl::StrCat("the list has more than ", kMaxListedObjects,
                                     " objects; narrow it by a selector or a namespace")));
      return;
    }
    std::move(page->items.begin(), page->items.end(), std::back_inserter(all_.items));
    all_.resource_version = std::move(page->resource_version);
    if (page->continue_token.empty()) {
      End(std::move(all_));
      return;
    }
    ListOptions next = options_;
    next.continue_token = std::move(page->continue_token);
    Ask(next);
  }

  // The callback may destroy this.
  void End(absl::StatusOr<ListPage<T>> result) {
    Done done = std::move(done_);
    done(std::move(result));
  }

  const ListOptions options_;
  ListOne list_one_;
  Done done_;
  int tries_ = 0;
  ListPage<T> all_;
  std::unique_ptr<PendingCall> page_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_LIST_ALL_H_
