#ifndef CAPSTAN_SERVICES_CREDENTIALS_TESTING_SERVER_HARNESS_H_
#define CAPSTAN_SERVICES_CREDENTIALS_TESTING_SERVER_HARNESS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/call.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/x509.h"
#include "libs/store/memory_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "services/credentials/server.h"

namespace capstan::credentials {

// The machine's clocks with the wall clock moved.
class ShiftedClock final : public Clock {
 public:
  Now Read() const override {
    Now now = system_.Read();
    now.wall += shift_;
    return now;
  }
  // Before anything reads the clock.
  void Shift(absl::Duration by) { shift_ += by; }

 private:
  SystemClock system_;
  absl::Duration shift_;
};

// The whole service in this process over a memory store, with real TLS on loopback, and what its
// clients need. Disk, folder and logs outlive Stop(), so that Start() is a restart.
class ServerHarness {
 public:
  // `folder` must exist and be empty.
  explicit ServerHarness(std::string folder);
  ~ServerHarness();

  absl::Status Start();
  void Stop();
  // Only while stopped.
  ShiftedClock& clock() { return clock_; }
  Config& config() { return config_; }

  Server& server() { return *server_; }
  std::string address() const;
  std::string folder() const { return folder_; }

  // A channel with an SVID to the mTLS port.
  std::shared_ptr<grpc::Channel> Dial(std::shared_ptr<const rpc::Identity> identity);
  // The answer to Join over the join port, pinned by the token's hash.
  absl::StatusOr<v1::Svid> Join(const std::string& token, const rpc::PrivateKey& key);
  // Join, kept as an identity in a folder of its own.
  absl::StatusOr<std::shared_ptr<rpc::Identity>> JoinAs(const std::string& token);
  // From the people's socket, for the uid of this process.
  absl::StatusOr<v1::Svid> PersonSvid(const rpc::PrivateKey& key);
  absl::StatusOr<std::shared_ptr<rpc::Identity>> Person();
  // By a person's identity.
  absl::StatusOr<std::string> MakeToken(std::shared_ptr<const rpc::Identity> person,
                                        const std::string& path);
  absl::StatusOr<std::shared_ptr<rpc::Identity>> Keep(const v1::Svid& svid,
                                                      const rpc::PrivateKey& key);
  // All records, after checking that they form a chain up to the head.
  absl::StatusOr<std::vector<event::v1::AuditRecord>> Audit(
      std::shared_ptr<const rpc::Identity> person);

  // Everything that was logged, as one text.
  std::string Logs() const;
  // Every value in the store, as one text.
  std::string Disk();
  // What somebody does who can write the store; while it is started.
  absl::Status WriteStore(store::TxnRequest txn);

 private:
  const std::string folder_;
  ShiftedClock clock_;
  log::TestingSink sink_;
  const log::Logger log_;
  Config config_;
  std::shared_ptr<store::MemoryImage> image_ = std::make_shared<store::MemoryImage>();
  std::unique_ptr<metrics::Registry> metrics_;
  std::unique_ptr<ThreadStrand> strand_;
  std::unique_ptr<ThreadStrand> io_strand_;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<Server> server_;
  int identities_ = 0;
};

// Makes a call with a deadline and returns its response, or its status with the details.
template <typename Response, typename Stub, typename Request>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(20));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return response;
}

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_TESTING_SERVER_HARNESS_H_
