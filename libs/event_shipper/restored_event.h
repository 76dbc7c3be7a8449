#ifndef CAPSTAN_LIBS_EVENT_SHIPPER_RESTORED_EVENT_H_
#define CAPSTAN_LIBS_EVENT_SHIPPER_RESTORED_EVENT_H_

#include <cstdint>
#include <string>

namespace capstan {

// Makes the outbox of a backup fit for a restored store. An event in it may have been shipped after
// the backup, so each keeps the identity it had (`<service>@<old incarnation>` and its sequence),
// by which telemetry knows it again. In the restored store, whose revisions and with them sequences
// begin anew, it gets a number below all that are to come; the order stays. One object for all
// records of a restore, given to it in the order of their keys.
class RestoredEvents {
 public:
  // `incarnation`: of the store that was backed up.
  RestoredEvents(std::string service, int64_t incarnation)
      : service_(std::move(service)), incarnation_(incarnation) {}

  // Leaves alone what is not of the outbox.
  void Prepare(std::string* key, std::string* value);

 private:
  const std::string service_;
  const int64_t incarnation_;
  int64_t events_ = 0;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_EVENT_SHIPPER_RESTORED_EVENT_H_
