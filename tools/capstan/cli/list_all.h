#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_LIST_ALL_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_LIST_ALL_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "grpcpp/client_context.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/call.h"

namespace capstan::cli {

// Every resource of a list, page by page. `request` says of which, and how large a page may be;
// `items`, such as `&ListJobsResponse::mutable_jobs`, are what a page consists of. Each page has the
// time-out of `terms` to itself. What is made or removed between two pages may be missing or shown.
template <typename Stub, typename Request, typename Response, typename Resource>
absl::StatusOr<std::vector<Resource>> ListAll(
    Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
    Request request, google::protobuf::RepeatedPtrField<Resource>* (Response::*items)(),
    const CallTerms& terms) {
  std::vector<Resource> all;
  do {
    CAPSTAN_ASSIGN_OR_RETURN(Response page, Call(stub, method, request, terms));
    for (Resource& resource : *(page.*items)()) all.push_back(std::move(resource));
    request.set_page_token(std::move(*page.mutable_next_page_token()));
  } while (!request.page_token().empty());
  return all;
}

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_LIST_ALL_H_
