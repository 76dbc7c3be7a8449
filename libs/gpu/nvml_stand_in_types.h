// What the parts of the stand-in for NVML share: see nvml_stand_in.cc.
#ifndef CAPSTAN_LIBS_GPU_NVML_STAND_IN_TYPES_H_
#define CAPSTAN_LIBS_GPU_NVML_STAND_IN_TYPES_H_

#include <cstring>
#include <string>

#include "libs/gpu/nvml_stand_in.h"

enum nvmlReturn_t {
  NVML_SUCCESS = 0,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_IN_USE = 19,
  NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

using nvmlDevice_t = capstan::gpu::SceneDevice*;

extern "C" capstan::gpu::Scene* CapstanNvmlScene();

// What a test wants the function to answer, else `otherwise`.
inline nvmlReturn_t Wanted(const char* function, nvmlReturn_t otherwise = NVML_SUCCESS) {
  const auto& failures = CapstanNvmlScene()->failures;
  const auto failure = failures.find(function);
  return failure == failures.end() ? otherwise : static_cast<nvmlReturn_t>(failure->second);
}

inline nvmlReturn_t Copy(const std::string& text, char* to, unsigned int length) {
  if (text.size() + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

#endif  // CAPSTAN_LIBS_GPU_NVML_STAND_IN_TYPES_H_
