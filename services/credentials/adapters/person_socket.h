#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_PERSON_SOCKET_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_PERSON_SOCKET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"
#include "libs/time/clock.h"

namespace capstan::credentials {

// A gRPC server on a Unix socket that knows its callers' uids. gRPC does not tell a handler who is at
// the other end, so connections are accepted here, their peer is asked of the kernel, and each is given
// to the server of its uid: what a call may do is fixed by the connection that it came on.
//
// Bounded: at most kMaxUids uids in a process's life, kBurst connections of one at once and
// kPerSecond a second after that, ended after a minute or ten idle seconds.
class PersonSocket {
 public:
  static constexpr size_t kMaxUids = 256;
  static constexpr double kBurst = 32;
  static constexpr double kPerSecond = 8;

  struct Options {
    // At most 107 bytes, in a folder that only the platform may write. A socket that is there is
    // replaced.
    std::string path;
    // Makes the service for a uid; called once for each, on the socket's thread.
    std::function<std::unique_ptr<grpc::Service>(int64_t uid)> make_service;
    // Told about each connection that was refused; on the socket's thread.
    std::function<void(const absl::Status& why)> on_refused;
    const Clock* clock = nullptr;
  };

  static absl::StatusOr<std::unique_ptr<PersonSocket>> Start(Options options);
  // Removes the socket and ends all connections; calls in hand get a second.
  ~PersonSocket();
  PersonSocket(const PersonSocket&) = delete;
  PersonSocket& operator=(const PersonSocket&) = delete;

 private:
  struct Person {
    std::unique_ptr<grpc::Service> service;
    std::unique_ptr<grpc::Server> server;
    // Connections that may still be taken, as of `counted`.
    double allowance = kBurst;
    BootTime counted;
  };

  PersonSocket(Options options, int socket, int wake)
      : options_(std::move(options)), socket_(socket), wake_(wake) {}
  void Loop();
  // Takes over the connection, or says why not; then the caller closes it.
  absl::Status Admit(int connection);
  absl::StatusOr<Person*> PersonOf(int64_t uid);

  const Options options_;
  const int socket_;
  // An eventfd: readable when the thread is to end.
  const int wake_;
  std::map<int64_t, Person> persons_;
  std::thread thread_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_PERSON_SOCKET_H_
