// Answers of an etcd that do not fit what was asked: every read that was asked for has a result,
// and nothing of another's making is taken for one.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/optional.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/store/etcd_messages.h"
#include "libs/store/store.h"
#include "proto/etcd/etcdserverpb/rpc.pb.h"
#include "proto/etcd/mvccpb/kv.pb.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::store::Compare;
using capstan::store::Delete;
using capstan::store::Op;
using capstan::store::Put;
using capstan::store::RangeRequest;
using capstan::store::RangeResult;
using capstan::store::StoreGuard;
using capstan::store::TxnRequest;
using capstan::store::TxnResult;

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{"/a", "/b", "/c", ""};
  return words;
}

std::vector<Op> Ops(FuzzInput* input) {
  std::vector<Op> ops;
  for (size_t count = input->Below(4); count > 0; --count) {
    switch (input->Below(3)) {
      case 0:
        ops.emplace_back(Put{input->Word(Words()), "value"});
        break;
      case 1:
        ops.emplace_back(Delete{input->Word(Words())});
        break;
      default: {
        RangeRequest range;
        range.key = input->Word(Words());
        ops.emplace_back(range);
      }
    }
  }
  return ops;
}

size_t Reads(const std::vector<Op>& ops) {
  size_t reads = 0;
  for (const Op& op : ops) reads += std::holds_alternative<RangeRequest>(op) ? 1 : 0;
  return reads;
}

TxnRequest Request(FuzzInput* input) {
  TxnRequest request;
  for (size_t compares = input->Below(3); compares > 0; --compares) {
    Compare compare;
    compare.key = input->Word(Words());
    compare.op = static_cast<Compare::Op>(input->Below(4));
    compare.target = static_cast<Compare::Target>(input->Below(4));
    compare.number = input->Number();
    compare.value = input->Word(Words());
    request.compares.push_back(compare);
  }
  request.then = Ops(input);
  request.otherwise = Ops(input);
  return request;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const TxnRequest request = Request(&input);
  std::map<std::string, bool> present;
  for (const std::string& key : capstan::store::KeysToLookUp(request)) present[key] = input.Flag();
  const StoreGuard guard{"/guard", input.Flag() ? 7 : 0};
  (void)capstan::store::ToEtcd(request, "/fence", present, guard);

  const auto answer = capstan::fuzzing::MakeMessage<etcdserverpb::TxnResponse>(Words(), &input);
  (void)capstan::store::WasReplaced(answer, request, guard);
  const absl::optional<TxnResult> result = capstan::store::FromEtcd(answer, request, present);
  if (result.has_value()) {
    Require(result->ranges.size() == Reads(result->succeeded ? request.then : request.otherwise));
  }
  const auto range = capstan::fuzzing::MakeMessage<etcdserverpb::RangeResponse>(Words(), &input);
  const RangeResult read = capstan::store::FromEtcd(range, RangeRequest{});
  Require(read.kvs.size() == static_cast<size_t>(range.kvs_size()));
  (void)capstan::store::FromEtcd(capstan::fuzzing::MakeMessage<mvccpb::Event>(Words(), &input));
  return 0;
}
