// The parts of ConformanceCases().
#ifndef CAPSTAN_LIBS_KUBE_TESTING_CONFORMANCE_CASES_H_
#define CAPSTAN_LIBS_KUBE_TESTING_CONFORMANCE_CASES_H_

#include <vector>

#include "libs/kube/testing/api_conformance.h"

namespace capstan::kube::testing {

std::vector<ConformanceCase> ObjectCases();
std::vector<ConformanceCase> DeletionCases();
std::vector<ConformanceCase> ListCases();
std::vector<ConformanceCase> WatchCases();
std::vector<ConformanceCase> PatchCases();
std::vector<ConformanceCase> ApplyCases();
std::vector<ConformanceCase> SubresourceCases();
std::vector<ConformanceCase> ScaleCases();
std::vector<ConformanceCase> ConflictCases();
std::vector<ConformanceCase> OwnershipCases();
std::vector<ConformanceCase> DryRunCases();
std::vector<ConformanceCase> RevisionCases();

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_CONFORMANCE_CASES_H_
