#include "libs/rpc/callback_threads.h"

#include <atomic>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace capstan::rpc {
namespace {

// A channel becomes a user of the threads with its first callback call; this one, to nowhere, is
// never released.
struct Keeper {
  Keeper()
      : stub(grpc::CreateChannel("unix:/dev/null/capstan", grpc::InsecureChannelCredentials())),
        request(&empty, 1) {
    stub.UnaryCall(&context, "/capstan/Nothing", grpc::StubOptions(), &request, &response,
                   [](const grpc::Status&) {});
    context.TryCancel();
  }

  grpc::GenericStub stub;
  grpc::ClientContext context;
  grpc::Slice empty;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

}  // namespace

void KeepCallbackThreads() {
  // Atomic, so that the pointer is stored and the object is not taken for a leak.
  static std::atomic<Keeper*> keeper = new Keeper;
  static_cast<void>(keeper.load());
}

}  // namespace capstan::rpc
