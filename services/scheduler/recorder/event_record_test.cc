#include "services/scheduler/recorder/event_record.h"

#include <cstddef>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"

namespace capstan::scheduler {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using recording::EventRecord;

// Sets every field, each to something of its own, so that what is mixed up is seen.
void FillAll(int depth, int* next, Message* message) {
  const auto* const reflection = message->GetReflection();
  for (int f = 0; f < message->GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor* const field = message->GetDescriptor()->field(f);
    const int n = ++*next;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_map() || depth > 4) continue;
      Message* const child = field->is_repeated() ? reflection->AddMessage(message, field)
                                                  : reflection->MutableMessage(message, field);
      FillAll(depth + 1, next, child);
      continue;
    }
    const auto set = [&](auto setter, auto adder, const auto& value) {
      if (field->is_repeated()) {
        (reflection->*adder)(message, field, value);
      } else {
        (reflection->*setter)(message, field, value);
      }
    };
    using R = google::protobuf::Reflection;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        set(&R::SetInt32, &R::AddInt32, n);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        set(&R::SetInt64, &R::AddInt64, n);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        set(&R::SetUInt32, &R::AddUInt32, n);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        set(&R::SetUInt64, &R::AddUInt64, n);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        set(&R::SetDouble, &R::AddDouble, n + 0.25);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        set(&R::SetFloat, &R::AddFloat, n + 0.5f);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        set(&R::SetBool, &R::AddBool, true);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        set(&R::SetEnumValue, &R::AddEnumValue, 1);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        // As redacted texts are.
        set(&R::SetString, &R::AddString,
            field->name() == "argv" ? std::string("xxx") : absl::StrCat("text", n));
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;
    }
  }
}

// How many fields a struct of values has: as many as it can be made from.
struct Anything {
  template <typename T>
  constexpr operator T() const;  // NOLINT(google-explicit-constructor)
};
template <typename T, typename... Fields>
constexpr size_t CountFields() {
  if constexpr (requires { T{Fields{}..., Anything{}}; }) {
    return CountFields<T, Fields..., Anything>();
  } else {
    return sizeof...(Fields);
  }
}

TEST(EventRecordTest, EveryTypeOfEventComesBackWithAllThatItHas) {
  const google::protobuf::OneofDescriptor* const kinds =
      EventRecord::descriptor()->FindOneofByName("kind");
  ASSERT_EQ(static_cast<size_t>(kinds->field_count()), std::variant_size_v<Event>);
  std::set<size_t> seen;
  for (int k = 0; k < kinds->field_count(); ++k) {
    SCOPED_TRACE(kinds->field(k)->name());
    EventRecord record;
    int next = 0;
    Message* const kind = record.GetReflection()->MutableMessage(&record, kinds->field(k));
    FillAll(0, &next, kind);
    const auto event = RecordedEvent(record);
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_TRUE(seen.insert(event->index()).second);
    EventRecord again;
    RecordEvent(*event, Redaction::OfRedacted(), &again);
    EXPECT_EQ(again.SerializeAsString(), record.SerializeAsString())
        << again.DebugString() << record.DebugString();
    EXPECT_NE(EventInWords(record), "unknown");
    // And the event has no field that the record lacks.
    std::visit(
        [&](const auto& one) {
          EXPECT_EQ(CountFields<std::decay_t<decltype(one)>>(),
                    static_cast<size_t>(kind->GetDescriptor()->field_count()));
        },
        *event);
  }
}

TEST(EventRecordTest, TimesOutOfBoundsStayOut) {
  for (const absl::Duration d : {absl::InfiniteDuration(), -absl::InfiniteDuration(),
                                 absl::ZeroDuration(), absl::Nanoseconds(-7)}) {
    EXPECT_EQ(FromNanoseconds(ToNanoseconds(d)), d);
  }
  EventRecord record;
  RecordEvent(DataProgressed{}, Redaction::OfRedacted(), &record);
  EXPECT_EQ(std::get<DataProgressed>(*RecordedEvent(record)).eta, absl::InfiniteDuration());
  RecordEvent(RenewalReceived{1, 2, BootTime::InfiniteFuture()}, Redaction::OfRedacted(), &record);
  EXPECT_EQ(std::get<RenewalReceived>(*RecordedEvent(record)).leader_until,
            BootTime::InfiniteFuture());
}

TEST(EventRecordTest, WhatIsNoEventIsRefused) {
  EXPECT_EQ(RecordedEvent(EventRecord()).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace capstan::scheduler
