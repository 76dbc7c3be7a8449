// Keys of the executor's store, as docs/store.md lists them.
#ifndef CAPSTAN_SERVICES_EXECUTOR_CORE_KEYS_H_
#define CAPSTAN_SERVICES_EXECUTOR_CORE_KEYS_H_

#include <string>

#include "libs/session/task_id.h"

namespace capstan::executor {

inline constexpr char kPrefix[] = "/capstan/executor/v1/";
inline constexpr char kSelfKey[] = "/capstan/executor/v1/self";
inline constexpr char kDesiredPrefix[] = "/capstan/executor/v1/desired/";
inline constexpr char kObservedPrefix[] = "/capstan/executor/v1/observed/";
inline constexpr char kNodePrefix[] = "/capstan/executor/v1/nodes/";
inline constexpr char kUidPrefix[] = "/capstan/executor/v1/uids/";

inline std::string DesiredKey(const session::TaskId& id) { return kDesiredPrefix + id.Path(); }
inline std::string ObservedKey(const session::TaskId& id) { return kObservedPrefix + id.Path(); }
inline std::string NodeKey(const std::string& node) { return kNodePrefix + node; }
inline std::string UidKey(const std::string& job_uid) { return kUidPrefix + job_uid; }

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_CORE_KEYS_H_
