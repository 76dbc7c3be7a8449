#ifndef CAPSTAN_LIBS_MIG_DECLARED_GPUS_H_
#define CAPSTAN_LIBS_MIG_DECLARED_GPUS_H_

#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "libs/status/error.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::mig {

// GPUs of a Node are numbered from 0 to this less one.
constexpr int kMaxGpus = 64;

// Whether a configuration's GPUs in MIG mode are of models in DeviceModels(), each number once.
// `field` is the path of the list, with which the errors begin.
void CheckDeclaredGpus(absl::string_view field,
                       const google::protobuf::RepeatedPtrField<capstan::type::v1::MigGpu>& gpus,
                       status::FieldErrors* errors);

}  // namespace capstan::mig

#endif  // CAPSTAN_LIBS_MIG_DECLARED_GPUS_H_
