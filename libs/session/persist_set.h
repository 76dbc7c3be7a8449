// What one step of a core changes in its store.
#ifndef CAPSTAN_LIBS_SESSION_PERSIST_SET_H_
#define CAPSTAN_LIBS_SESSION_PERSIST_SET_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "google/protobuf/message_lite.h"
#include "libs/session/lower_side.h"
#include "libs/store/store.h"

namespace capstan::session {

// Collects puts and deletes by key; the last word on a key wins. Iteration is in key order, so that
// a step is the same on every run.
class PersistSet {
 public:
  void Put(const std::string& key, const google::protobuf::MessageLite& record) {
    changes_[key] = SerializeDeterministic(record);
  }
  void Delete(const std::string& key) { changes_[key] = absl::nullopt; }

  // Moves the changes out; `first` (may be empty) goes before all other keys.
  void MoveTo(const std::string& first, std::vector<store::Put>* puts,
              std::vector<store::Delete>* deletes) {
    const auto it = changes_.find(first);
    if (it != changes_.end()) {
      MoveOne(it->first, it->second, puts, deletes);
      changes_.erase(it);
    }
    for (auto& [key, value] : changes_) MoveOne(key, value, puts, deletes);
    changes_.clear();
  }

 private:
  static void MoveOne(const std::string& key, absl::optional<std::string>& value,
                      std::vector<store::Put>* puts, std::vector<store::Delete>* deletes) {
    if (value.has_value()) {
      puts->push_back(store::Put{key, *std::move(value)});
    } else {
      deletes->push_back(store::Delete{key, ""});
    }
  }

  std::map<std::string, absl::optional<std::string>> changes_;
};

}  // namespace capstan::session

#endif  // CAPSTAN_LIBS_SESSION_PERSIST_SET_H_
