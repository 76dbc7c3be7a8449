// Who uses a platform while things go wrong.
#ifndef CAPSTAN_INTEGRATION_CRASH_CLIENT_H_
#define CAPSTAN_INTEGRATION_CRASH_CLIENT_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "integration/crash/scenario.h"
#include "integration/crash/subscriber.h"
#include "integration/platform/command.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {

// Of each Job's witnesses: short enough that it takes two seconds, long enough for several
// checkpoints.
inline constexpr int kSteps = 30;

// A Dataset's version takes this, whatever it is called; two do not fit the Site.
inline constexpr int kVersionBytes = 2000;
inline constexpr char kSiteLimit[] = "3Ki";

// Makes a Project and Datasets, has one loaded that has to leave for the one of its Job, subscribes
// to the Job's log and reads on behind its cursor, submits the Job and waits for its end. Repeats
// what was not answered, and starts the platform again once its supervisor is gone. A thread of its
// own beside that of the faults.
class Client {
 public:
  Client(TestPlatform* platform, const Scenario& scenario, std::string id);

  // Until the Job has ended, or GiveUp.
  void Run();
  void GiveUp() { given_up_.Notify(); }
  bool submitted() const { return submitted_; }
  // After Run.
  Subscriber& subscriber() { return subscriber_; }

 private:
  void BringUp();
  CommandResult Call(std::vector<std::string> arguments);
  // Until it is answered: with yes, or, if a former answer was lost, with `done` in its error.
  void Must(const std::vector<std::string>& arguments, const std::vector<std::string>& done);
  void Create(const std::vector<std::string>& arguments);
  void MakeDataset(const std::string& name);
  std::string Yaml() const;

  TestPlatform* const platform_;
  const Scenario& scenario_;
  const std::string id_;
  absl::Notification given_up_;
  std::atomic<bool> submitted_{false};
  std::string last_error_;
  Subscriber subscriber_;
};

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_CLIENT_H_
