#ifndef CAPSTAN_LIBS_RPC_LIMITS_H_
#define CAPSTAN_LIBS_RPC_LIMITS_H_

#include <cstddef>

namespace capstan::rpc {

// Largest message in either direction. Lists are paged and content is chunked to stay below.
inline constexpr int kMaxMessageBytes = 4 << 20;
// What a stream holds for a slow peer before its writer is told; see the streams.
inline constexpr size_t kMaxQueuedBytes = 4 << 20;

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_LIMITS_H_
