// What must be true of one Job, or of all of a platform, after everything that went wrong. Failures
// are GoogleTest's.
#ifndef CAPSTAN_INTEGRATION_CRASH_JUDGE_H_
#define CAPSTAN_INTEGRATION_CRASH_JUDGE_H_

#include <string>
#include <vector>

#include "integration/crash/subscriber.h"
#include "integration/platform/test_platform.h"
#include "integration/platform/witness_log.h"

namespace capstan::integration {

// Every line of the generations that wrote anything: in order, none twice, none missing before the
// last, and of the generation that ended well every one. Returns how many there are.
int JudgeLogs(TestPlatform& platform, const std::string& id, int ranks, const WitnessLog& log);

// Every change that was stored is told once and in order, whoever died between the store and the
// Stream: what was decided before a Task could start, and how each Task of the last generation
// ended.
void JudgeEvents(TestPlatform& platform, const std::string& id, int ranks, const WitnessLog& log);

// What was acknowledged is in credentials' audit chain, once, and the chain is whole.
void JudgeAudit(TestPlatform& platform, const std::string& id);

// The subscriber gets each of the log's `lines`, and its cursor is where it said; a subscription
// that was deleted is gone.
void JudgeSubscriber(TestPlatform& platform, const std::string& id, int lines,
                     Subscriber& subscriber);

// The audit chain of each part is whole, and telemetry's has what people did to subscriptions.
void JudgeChains(TestPlatform& platform, const std::vector<std::string>& jobs);

// What each part keeps of its identity is one: key, chain and roots belong together.
void JudgeIdentities(TestPlatform& platform);

// Every Job has left the scheduler, and is in the archive once.
void JudgeArchive(TestPlatform& platform, const std::vector<std::string>& jobs);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_CRASH_JUDGE_H_
