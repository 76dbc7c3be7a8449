#ifndef CAPSTAN_LIBS_LIFECYCLE_PROCESS_END_H_
#define CAPSTAN_LIBS_LIFECYCLE_PROCESS_END_H_

namespace capstan::lifecycle {

// Ends the process with this exit code once its standard streams are flushed, without a destructor
// of a static object and without what atexit has.
//
// gRPC's threads live as long as the process does (see libs/rpc/callback_threads.h), and go on with
// what is left of a connection while another thread returns from main. Whatever that takes away in
// the meantime, OpenSSL's tables among it, they may be using.
[[noreturn]] void EndProcess(int code);

// From here on a fatal signal (SIGSEGV, SIGABRT and their like) prints its stack to standard error
// before the process dies of it. Called once, first in main; `program` is argv[0] and must stay.
void ReportCrashes(const char* program);

// From here on neither this process nor one that it starts leaves a core, as a file or with the
// program that the machine's core_pattern names: private keys are in it. What a crash has to tell
// is in ReportCrashes' stack.
void ForbidCores();

}  // namespace capstan::lifecycle

#endif  // CAPSTAN_LIBS_LIFECYCLE_PROCESS_END_H_
