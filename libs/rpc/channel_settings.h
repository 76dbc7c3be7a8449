#ifndef CAPSTAN_LIBS_RPC_CHANNEL_SETTINGS_H_
#define CAPSTAN_LIBS_RPC_CHANNEL_SETTINGS_H_

#include "grpcpp/support/channel_arguments.h"

namespace capstan::rpc {

// What every channel of Capstan's has: keepalive, bounded messages, jittered reconnects within 5 s,
// no proxy, and the name that SVIDs are asked for by.
grpc::ChannelArguments ChannelSettings();

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_CHANNEL_SETTINGS_H_
