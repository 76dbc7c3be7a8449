// What a GPU is called. Pure.
#ifndef CAPSTAN_LIBS_GPU_GPU_MODEL_H_
#define CAPSTAN_LIBS_GPU_GPU_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace capstan::gpu {

// `H100-80GB`, as the models of libs/mig: the chip and the memory.
//
// The chip: the driver's product name without a leading `NVIDIA`, up to its first word with a digit
// (words end at a space or a `-`), in capitals, joined by `-`: `NVIDIA A100-SXM4-80GB` is an A100,
// `NVIDIA RTX A6000` an RTX-A6000. The memory: what the driver has of it, in GiB, rounded up, which
// is the figure that NVIDIA sells: an H200 has 140.4 GiB, `H200-141GB`; where error correction takes
// some of it away it is less (an L4 with 22.5 GiB: `L4-23GB`). Memory that stands in a product name
// is not looked at: in that of a GH200 it is the CPU's. Two sockets of one chip with the same memory
// have one name.
//
// Empty if name or memory is not known.
std::string ModelName(absl::string_view product, int64_t memory_bytes);

// `nvidia.com/h100-80gb`: the name under which whole GPUs of a model count.
std::string WholeGpuResource(absl::string_view model);
// Whether it is such a name, of any model.
bool IsWholeGpuResource(absl::string_view name);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_GPU_MODEL_H_
