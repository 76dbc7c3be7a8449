#ifndef CAPSTAN_LIBS_PROCESS_LOOPBACK_NETWORK_H_
#define CAPSTAN_LIBS_PROCESS_LOOPBACK_NETWORK_H_

#include <string>

namespace capstan::process {

// Names the network in which a loopback address of this process means this process: the kernel's
// boot id and the network namespace. Two processes with the same name reach each other's loopback
// ports. Empty if /proc does not say.
std::string LoopbackNetwork();

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_LOOPBACK_NETWORK_H_
