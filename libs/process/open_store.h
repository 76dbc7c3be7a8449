#ifndef CAPSTAN_LIBS_PROCESS_OPEN_STORE_H_
#define CAPSTAN_LIBS_PROCESS_OPEN_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "proto/capstan/config/v1/process.pb.h"

namespace capstan::process {

struct OpenOptions {
  uint64_t seed = 1;
  // As in EtcdOptions; a SQLite store needs neither.
  bool restoring = false;
  std::function<void(const absl::Status& why)> on_replaced = nullptr;
};

// Opens the store that `config` names, of the service `service`, with `data_folder` for what is
// local. Blocks until it answers, an etcd for at most `EtcdOptions::call_timeout`; not to be called
// on `strand`, on which the store calls back and which must outlive it.
absl::StatusOr<std::unique_ptr<store::Store>> OpenStore(const config::v1::Store& config,
                                                        absl::string_view service,
                                                        const std::string& data_folder,
                                                        Strand* strand, OpenOptions options);

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_OPEN_STORE_H_
