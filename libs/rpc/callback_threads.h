#ifndef CAPSTAN_LIBS_RPC_CALLBACK_THREADS_H_
#define CAPSTAN_LIBS_RPC_CALLBACK_THREADS_H_

namespace capstan::rpc {

// Keeps the threads that gRPC runs callbacks on for the rest of the process's life.
//
// gRPC 1.51 counts their users, and the last channel or server to go joins them. A ClientContext
// holds its channel, so the last reference often falls in a callback, on one of those very threads:
// that thread then fails to join itself and goes on with freed memory. Dial and Server::Start call
// this, so no one else needs to.
void KeepCallbackThreads();

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_CALLBACK_THREADS_H_
