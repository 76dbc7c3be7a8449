// The name of every crash point: `<part>.<where>`. `store` stands for each part that has a store.
#ifndef CAPSTAN_LIBS_CRASH_POINT_POINTS_H_
#define CAPSTAN_LIBS_CRASH_POINT_POINTS_H_

#include "absl/strings/string_view.h"

namespace capstan::crash {

// SQLite: all of a group is written, nothing of it is committed; it is durable, nobody knows.
inline constexpr absl::string_view kStoreBeforeCommit = "store.before_commit";
inline constexpr absl::string_view kStoreCommitted = "store.committed";

// A step is stored, none of its effects has begun; all of them have, and nothing was answered yet.
inline constexpr absl::string_view kSchedulerBeforeEffects = "scheduler.before_effects";
inline constexpr absl::string_view kSchedulerAfterEffects = "scheduler.after_effects";

// Every one of the above.
inline constexpr absl::string_view kAllPoints[] = {
    kStoreBeforeCommit,
    kStoreCommitted,
    kSchedulerBeforeEffects,
    kSchedulerAfterEffects,
};

}  // namespace capstan::crash

#endif  // CAPSTAN_LIBS_CRASH_POINT_POINTS_H_
