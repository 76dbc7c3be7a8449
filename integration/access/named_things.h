// What the requests of all methods name: for each kind of thing one that is there and one that is
// not, so that a refusal of the one can be compared with a refusal of the other.
#ifndef CAPSTAN_INTEGRATION_ACCESS_NAMED_THINGS_H_
#define CAPSTAN_INTEGRATION_ACCESS_NAMED_THINGS_H_

#include <map>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "integration/access/method_catalog.h"

namespace capstan::integration {

class NamedThings {
 public:
  // Says what there is of a kind: the last part of its name, e.g. `node`, `node-0`.
  void Set(const std::string& kind, const std::string& there) { there_[kind] = there; }

  // Of what kind a method's request names something: `job`, `queue` and the like; empty if it names
  // nothing. A method that is in no table is a failure of the test.
  static std::string KindIn(const Method& method);

  // A request that names the one that is there, and one that names none that is. The same request
  // with nothing in it if the method names nothing.
  std::unique_ptr<google::protobuf::Message> There(const Method& method) const;
  static std::unique_ptr<google::protobuf::Message> Absent(const Method& method);
  // Those two words.
  std::string WordThere(const Method& method) const;
  static std::string WordAbsent(const Method& method);

 private:
  static std::unique_ptr<google::protobuf::Message> Request(const Method& method,
                                                            absl::string_view word);

  std::map<std::string, std::string> there_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_ACCESS_NAMED_THINGS_H_
