#include "services/scheduler/core/validate.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;

constexpr char kProject[] = "projects/p";

JobSpec Good() {
  JobSpec spec;
  auto& group = *spec.add_task_groups();
  group.set_name("worker");
  group.set_replicas(1);
  group.add_argv("/bin/true");
  group.mutable_resources()->set_cpu_millis(1);
  group.mutable_resources()->set_memory_bytes(1 << 20);
  return spec;
}

std::vector<status::FieldViolation> Wrong(JobSpec spec) {
  ApplyDefaults(kProject, CoreConfig(), &spec);
  status::FieldErrors errors;
  ValidateJobSpec(kProject, CoreConfig(), spec, "job.spec", &errors);
  return errors.violations();
}

TEST(ValidateTest, FillsInWhatIsLeftOut) {
  JobSpec spec = Good();
  ApplyDefaults(kProject, CoreConfig(), &spec);
  EXPECT_EQ(spec.queue(), "queues/default");
  EXPECT_EQ(spec.service_account(), "projects/p/serviceAccounts/default");
  EXPECT_EQ(ToDuration(spec.fence_after()), absl::Minutes(15));
  EXPECT_EQ(ToDuration(spec.stop_grace()), absl::Seconds(30));
  EXPECT_EQ(spec.retry().max_restarts(), 3);
  EXPECT_EQ(ToDuration(spec.retry().initial_back_off()), absl::Seconds(1));
  EXPECT_EQ(ToDuration(spec.retry().max_back_off()), absl::Minutes(5));
  JobSpec given = Good();
  given.mutable_retry()->set_max_restarts(0);
  ApplyDefaults(kProject, CoreConfig(), &given);
  EXPECT_EQ(given.retry().max_restarts(), 0) << "zero restarts is not the default";
  EXPECT_TRUE(Wrong(Good()).empty());
}

struct Case {
  std::string field;
  std::function<void(JobSpec*)> change;
};

TEST(ValidateTest, AGroupsLevelLiesWithinTheJobs) {
  for (size_t outer = 0; outer < kLevelsByWidth.size(); ++outer) {
    for (size_t inner = 0; inner < kLevelsByWidth.size(); ++inner) {
      JobSpec spec = Good();
      spec.mutable_topology()->set_required(kLevelsByWidth[outer]);
      spec.mutable_task_groups(0)->mutable_topology()->set_required(kLevelsByWidth[inner]);
      const bool good = inner == 0 || inner > outer;
      EXPECT_EQ(Wrong(spec).empty(), good) << outer << " " << inner;
    }
  }
}

capstan::type::v1::Resources& ResourcesOf(JobSpec* spec) {
  return *spec->mutable_task_groups(0)->mutable_resources();
}

std::vector<status::FieldViolation> WrongMig(const std::string& model, const std::string& profile,
                                             const std::string& beside = "") {
  JobSpec spec = Good();
  ResourcesOf(&spec).mutable_mig()->set_model(model);
  ResourcesOf(&spec).mutable_mig()->set_profile(profile);
  if (!beside.empty()) (*ResourcesOf(&spec).mutable_accelerators())[beside] = 1;
  return Wrong(spec);
}

TEST(ValidateTest, AMigProfileIsOneOfItsModel) {
  EXPECT_TRUE(WrongMig("H100-80GB", "1g.10gb").empty());
  EXPECT_TRUE(WrongMig("A30-24GB", "2g.12gb+me").empty());
  EXPECT_TRUE(WrongMig("H100-80GB", "nvidia.com/mig-3g.40gb").empty());
  const std::string mig = "job.spec.task_groups[0].resources.mig";
  auto wrong = WrongMig("H100-80GB", "1g.5gb");
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].field, mig + ".profile");
  EXPECT_EQ(wrong[0].description,
            "MIG profile: found \"1g.5gb\", a profile of A100-40GB; expected one of H100-80GB: "
            "1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb, or "
            "nvidia.com/mig-<profile>");
  wrong = WrongMig("H100", "1g.10gb");
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].field, mig + ".model");
  EXPECT_TRUE(absl::StrContains(wrong[0].description, "found \"H100\"; expected one of A30-24GB"))
      << wrong[0].description;
  EXPECT_EQ(WrongMig("", "").size(), 1u);
  EXPECT_EQ(WrongMig("H100-80GB", "").size(), 1u);
}

TEST(ValidateTest, AnInstanceIsInsteadOfWholeDevices) {
  auto wrong = WrongMig("H100-80GB", "1g.10gb", "nvidia.com/h100");
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].field, "job.spec.task_groups[0].resources.mig");
  EXPECT_EQ(wrong[0].description,
            "is set beside whole devices (nvidia.com/h100); expected one MIG instance or "
            "`accelerators`, not both");
  // Nor are memory slices asked for by number.
  JobSpec spec = Good();
  (*ResourcesOf(&spec).mutable_accelerators())["mig/h100-80gb"] = 1;
  wrong = Wrong(spec);
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].field, "job.spec.task_groups[0].resources.accelerators[mig/h100-80gb]");
}

TEST(ValidateTest, AQuotaOfMemorySlicesNamesAModel) {
  for (const bool known : {true, false}) {
    capstan::scheduler::v1::Queue queue;
    queue.add_quotas()->set_resource(known ? "mig/h100-80gb" : "mig/h100");
    status::FieldErrors errors;
    ValidateQueue("q", queue, &errors);
    ASSERT_EQ(errors.violations().empty(), known);
    if (known) continue;
    EXPECT_EQ(errors.violations()[0].field, "queue.quotas[0].resource");
    EXPECT_TRUE(absl::StrContains(errors.violations()[0].description,
                                  "is `mig/h100`; expected, for memory slices of GPUs in MIG mode, "
                                  "one of mig/a30-24gb, "))
        << errors.violations()[0].description;
  }
}

void AddSlice(Topology::Level level, int size, JobSpec* spec) {
  spec->mutable_task_groups(0)->set_replicas(8);
  capstan::scheduler::v1::TaskSlice& slice = *spec->mutable_task_groups(0)->add_slices();
  slice.set_level(level);
  slice.set_size(size);
}

// The first TaskGroup is in the last one.
capstan::scheduler::v1::Section* AddSection(const std::string& name, const std::string& parent,
                                            JobSpec* spec) {
  spec->mutable_task_groups(0)->set_section(name);
  capstan::scheduler::v1::Section* section = spec->add_sections();
  section->set_name(name);
  section->set_parent(parent);
  return section;
}

TEST(ValidateTest, TakesSlicesOfSlicesInSectionsOfSections) {
  JobSpec spec = Good();
  spec.mutable_topology()->set_required(Topology::LEVEL_ZONE);
  AddSection("all", "", &spec);
  AddSection("replica", "all", &spec)->mutable_topology()->set_required(Topology::LEVEL_ROW);
  AddSection("stage", "replica", &spec);
  AddSlice(Topology::LEVEL_RACK, 4, &spec);
  AddSlice(Topology::LEVEL_NVLINK_DOMAIN, 2, &spec);
  AddSlice(Topology::LEVEL_NODE, 1, &spec);
  spec.mutable_task_groups(0)->set_min_replicas(4);
  EXPECT_TRUE(Wrong(spec).empty());
  spec.mutable_sections(2)->mutable_topology()->set_required(Topology::LEVEL_RACK);
  ASSERT_EQ(Wrong(spec).size(), 1u);
  EXPECT_EQ(Wrong(spec)[0].field, "job.spec.task_groups[0].slices[0].level");
}

using capstan::scheduler::v1::NodeRequirement;

NodeRequirement* AddRequirement(const std::string& key, NodeRequirement::Operator op, int values,
                                JobSpec* spec) {
  NodeRequirement* requirement = spec->add_node_requirements();
  requirement->set_key(key);
  requirement->set_operator_(op);
  for (int i = 0; i < values; ++i) requirement->add_values(absl::StrCat("v-", i));
  return requirement;
}

TEST(ValidateTest, TakesWhatIsAskedOfNodesUpToItsBounds) {
  JobSpec spec = Good();
  for (int i = 0; i < kMaxNodeRequirements; ++i) {
    AddRequirement("nvidia.com/gpu.product", NodeRequirement::OPERATOR_NOT_IN,
                   kMaxRequirementValues - 1, &spec)
        ->add_values("");
  }
  spec.mutable_node_requirements(0)->set_key(std::string(253, 'a') + "/" + std::string(63, 'b'));
  spec.mutable_node_requirements(1)->set_values(0, std::string(63, 'c'));
  spec.mutable_node_requirements(2)->set_operator_(NodeRequirement::OPERATOR_EXISTS);
  spec.mutable_node_requirements(2)->clear_values();
  spec.mutable_node_requirements(2)->set_key("A_b.c-D");
  *spec.mutable_task_groups(0)->mutable_node_requirements() = spec.node_requirements();
  for (int i = 0; i < kMaxTolerations; ++i) spec.add_tolerations()->set_key("team");
  spec.mutable_tolerations(0)->set_value("vision");
  spec.mutable_tolerations(1)->set_any_value(true);
  spec.mutable_tolerations(1)->clear_key();
  EXPECT_TRUE(Wrong(spec).empty());
}

TEST(ValidateTest, TakesArraysAndSingletonsUpToTheirBounds) {
  JobSpec spec = Good();
  spec.mutable_array()->set_size(kMaxArraySize);
  spec.mutable_array()->set_max_parallel(kMaxArraySize);
  spec.set_singleton("Team_a/nightly-2.0");
  spec.add_after()->set_job("projects/p/jobs/a");
  spec.mutable_after(0)->set_condition(
      capstan::scheduler::v1::JobDependency::CONDITION_CORRESPONDING);
  EXPECT_TRUE(Wrong(spec).empty());
  // Fewer may be larger.
  spec.mutable_array()->set_size(100);
  spec.mutable_task_groups(0)->add_argv(std::string(100'000, 'x'));
  EXPECT_TRUE(Wrong(spec).empty());
}

TEST(ValidateTest, NamesEachWrongFieldByItsPath) {
  const std::vector<Case> cases = {
      {"job.spec.queue", [](JobSpec* s) { s->set_queue("default"); }},
      {"job.spec.priority", [](JobSpec* s) { s->set_priority(1001); }},
      {"job.spec.time_limit",
       [](JobSpec* s) { *s->mutable_time_limit() = ToProto(absl::Milliseconds(999)); }},
      {"job.spec.time_limit",
       [](JobSpec* s) { *s->mutable_time_limit() = ToProto(absl::Hours(24 * 367)); }},
      // Of a Job that is not elastic, and of one that saves nothing.
      {"job.spec.grow_after",
       [](JobSpec* s) {
         *s->mutable_checkpoint_period() = ToProto(absl::Minutes(1));
         *s->mutable_grow_after() = ToProto(absl::Minutes(10));
       }},
      {"job.spec.grow_after",
       [](JobSpec* s) {
         s->mutable_task_groups(0)->set_replicas(2);
         s->mutable_task_groups(0)->set_min_replicas(1);
         *s->mutable_grow_after() = ToProto(absl::Minutes(10));
       }},
      {"job.spec.grow_after",
       [](JobSpec* s) {
         s->mutable_task_groups(0)->set_replicas(2);
         s->mutable_task_groups(0)->set_min_replicas(1);
         *s->mutable_checkpoint_period() = ToProto(absl::Minutes(20));
         *s->mutable_grow_after() = ToProto(absl::Minutes(10));
       }},
      {"job.spec.checkpoint_period",
       [](JobSpec* s) { *s->mutable_checkpoint_period() = ToProto(absl::ZeroDuration()); }},
      {"job.spec.array.size", [](JobSpec* s) { s->mutable_array(); }},
      {"job.spec.array.size", [](JobSpec* s) { s->mutable_array()->set_size(kMaxArraySize + 1); }},
      {"job.spec.array.size",
       [](JobSpec* s) {
         s->mutable_array()->set_size(kMaxArraySize);
         s->mutable_task_groups(0)->add_argv(std::string(20'000, 'x'));
       }},
      {"job.spec.array.max_parallel",
       [](JobSpec* s) {
         s->mutable_array()->set_size(2);
         s->mutable_array()->set_max_parallel(-1);
       }},
      {"job.spec.after[0].condition",
       [](JobSpec* s) {
         s->add_after()->set_job("projects/p/jobs/a");
         s->mutable_after(0)->set_condition(
             capstan::scheduler::v1::JobDependency::CONDITION_CORRESPONDING);
       }},
      {"job.spec.node_requirements[0].key",
       [](JobSpec* s) { AddRequirement("", NodeRequirement::OPERATOR_EXISTS, 0, s); }},
      // As the scheduler's own, which nobody may name.
      {"job.spec.node_requirements[0].key",
       [](JobSpec* s) { AddRequirement("/node", NodeRequirement::OPERATOR_EXISTS, 0, s); }},
      {"job.spec.node_requirements[0].key",
       [](JobSpec* s) { AddRequirement("Up.dev/a", NodeRequirement::OPERATOR_EXISTS, 0, s); }},
      {"job.spec.node_requirements[0].key",
       [](JobSpec* s) { AddRequirement("a..b/c", NodeRequirement::OPERATOR_EXISTS, 0, s); }},
      {"job.spec.node_requirements[0].key",
       [](JobSpec* s) { AddRequirement("a/b/c", NodeRequirement::OPERATOR_EXISTS, 0, s); }},
      {"job.spec.node_requirements[0].key",
       [](JobSpec* s) { AddRequirement("ends-", NodeRequirement::OPERATOR_EXISTS, 0, s); }},
      {"job.spec.node_requirements[0].key",
       [](JobSpec* s) {
         AddRequirement(std::string(64, 'a'), NodeRequirement::OPERATOR_EXISTS, 0, s);
       }},
      {"job.spec.node_requirements[0].operator",
       [](JobSpec* s) { AddRequirement("a", NodeRequirement::OPERATOR_UNSPECIFIED, 0, s); }},
      {"job.spec.node_requirements[0].operator",
       [](JobSpec* s) { AddRequirement("a", static_cast<NodeRequirement::Operator>(9), 1, s); }},
      {"job.spec.node_requirements[0].values",
       [](JobSpec* s) { AddRequirement("a", NodeRequirement::OPERATOR_IN, 0, s); }},
      {"job.spec.node_requirements[0].values",
       [](JobSpec* s) {
         AddRequirement("a", NodeRequirement::OPERATOR_IN, kMaxRequirementValues + 1, s);
       }},
      {"job.spec.node_requirements[0].values",
       [](JobSpec* s) { AddRequirement("a", NodeRequirement::OPERATOR_EXISTS, 1, s); }},
      {"job.spec.node_requirements[0].values",
       [](JobSpec* s) { AddRequirement("a", NodeRequirement::OPERATOR_DOES_NOT_EXIST, 1, s); }},
      {"job.spec.node_requirements[0].values[2]",
       [](JobSpec* s) {
         AddRequirement("a", NodeRequirement::OPERATOR_NOT_IN, 2, s)->add_values("v-0");
       }},
      {"job.spec.node_requirements[0].values[1]",
       [](JobSpec* s) {
         AddRequirement("a", NodeRequirement::OPERATOR_IN, 1, s)->add_values("not one");
       }},
      {"job.spec.node_requirements",
       [](JobSpec* s) {
         for (int i = 0; i <= kMaxNodeRequirements; ++i) {
           AddRequirement("a", NodeRequirement::OPERATOR_EXISTS, 0, s);
         }
       }},
      {"job.spec.task_groups[0].node_requirements[0].key",
       [](JobSpec* s) {
         *s->mutable_task_groups(0)->add_node_requirements() =
             *AddRequirement("/a", NodeRequirement::OPERATOR_EXISTS, 0, s);
         s->clear_node_requirements();
       }},
      {"job.spec.tolerations[0].key", [](JobSpec* s) { s->add_tolerations(); }},
      {"job.spec.tolerations[0].key", [](JobSpec* s) { s->add_tolerations()->set_key("/order"); }},
      {"job.spec.tolerations[0].value",
       [](JobSpec* s) {
         s->add_tolerations()->set_any_value(true);
         s->mutable_tolerations(0)->set_value("x");
       }},
      {"job.spec.tolerations[0].value",
       [](JobSpec* s) {
         s->add_tolerations()->set_key("team");
         s->mutable_tolerations(0)->set_value("-x");
       }},
      {"job.spec.tolerations",
       [](JobSpec* s) {
         for (int i = 0; i <= kMaxTolerations; ++i) s->add_tolerations()->set_key("a");
       }},
      {"job.spec.singleton", [](JobSpec* s) { s->set_singleton("a b"); }},
      {"job.spec.singleton", [](JobSpec* s) { s->set_singleton(std::string(64, 'a')); }},
      {"job.spec.preemption",
       [](JobSpec* s) { s->set_preemption(static_cast<JobSpec::Preemption>(9)); }},
      {"job.spec.topology.required",
       [](JobSpec* s) {
         s->mutable_topology()->set_required(
             static_cast<capstan::scheduler::v1::Topology::Level>(9));
       }},
      {"job.spec.topology.preferred",
       [](JobSpec* s) {
         s->mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
         s->mutable_topology()->set_preferred(capstan::scheduler::v1::Topology::LEVEL_ZONE);
       }},
      {"job.spec.task_groups[0].topology.required",
       [](JobSpec* s) {
         s->mutable_task_groups(0)->mutable_topology()->set_required(
             static_cast<capstan::scheduler::v1::Topology::Level>(8));
       }},
      {"job.spec.task_groups[0].topology.required",
       [](JobSpec* s) {
         s->mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
         s->mutable_task_groups(0)->mutable_topology()->set_required(
             capstan::scheduler::v1::Topology::LEVEL_ROW);
       }},
      {"job.spec.task_groups[0].topology.required",
       [](JobSpec* s) {
         s->mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
         s->mutable_task_groups(0)->mutable_topology()->set_required(
             capstan::scheduler::v1::Topology::LEVEL_RACK);
       }},
      {"job.spec.task_groups[0].topology.preferred",
       [](JobSpec* s) {
         s->mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
         s->mutable_task_groups(0)->mutable_topology()->set_preferred(
             capstan::scheduler::v1::Topology::LEVEL_RACK);
       }},
      {"job.spec.task_groups[0].topology.preferred",
       [](JobSpec* s) {
         auto* topology = s->mutable_task_groups(0)->mutable_topology();
         topology->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
         topology->set_preferred(capstan::scheduler::v1::Topology::LEVEL_ZONE);
       }},
      {"job.spec.task_groups[0].slices[0].level",
       [](JobSpec* s) { AddSlice(Topology::LEVEL_UNSPECIFIED, 2, s); }},
      {"job.spec.task_groups[0].slices[0].level",
       [](JobSpec* s) {
         s->mutable_topology()->set_required(Topology::LEVEL_RACK);
         AddSlice(Topology::LEVEL_RACK, 2, s);
       }},
      {"job.spec.task_groups[0].slices[1].level",
       [](JobSpec* s) {
         AddSlice(Topology::LEVEL_RACK, 4, s);
         AddSlice(Topology::LEVEL_ROW, 2, s);
       }},
      {"job.spec.task_groups[0].slices[1].level",
       [](JobSpec* s) {
         AddSlice(Topology::LEVEL_RACK, 4, s);
         AddSlice(Topology::LEVEL_RAIL, 2, s);
       }},
      {"job.spec.task_groups[0].slices[0].size",
       [](JobSpec* s) { AddSlice(Topology::LEVEL_RACK, 0, s); }},
      {"job.spec.task_groups[0].slices[0].size",
       [](JobSpec* s) { AddSlice(Topology::LEVEL_RACK, 3, s); }},
      {"job.spec.task_groups[0].slices[0].size",
       [](JobSpec* s) {
         AddSlice(Topology::LEVEL_RACK, 4, s);
         s->mutable_task_groups(0)->set_min_replicas(2);
       }},
      {"job.spec.task_groups[0].slices[1].size",
       [](JobSpec* s) {
         AddSlice(Topology::LEVEL_RACK, 4, s);
         AddSlice(Topology::LEVEL_NODE, 3, s);
       }},
      {"job.spec.task_groups[0].slices",
       [](JobSpec* s) {
         for (int level = 1; level <= 5; ++level) {
           AddSlice(static_cast<Topology::Level>(level), 1, s);
         }
       }},
      {"job.spec.task_groups[0].section",
       [](JobSpec* s) { s->mutable_task_groups(0)->set_section("absent"); }},
      {"job.spec.sections[0]", [](JobSpec* s) { s->add_sections()->set_name("empty"); }},
      {"job.spec.sections[0].name", [](JobSpec* s) { AddSection("Upper", "", s); }},
      {"job.spec.sections[1].name",
       [](JobSpec* s) {
         AddSection("a", "", s);
         AddSection("a", "", s);
       }},
      {"job.spec.sections[0].parent", [](JobSpec* s) { AddSection("a", "a", s); }},
      {"job.spec.sections[0].parent",
       [](JobSpec* s) {
         AddSection("a", "b", s);
         AddSection("b", "a", s);
       }},
      {"job.spec.sections[6].parent",
       [](JobSpec* s) {
         for (int i = 0; i < 7; ++i) {
           AddSection(absl::StrCat("s", i), i == 0 ? "" : absl::StrCat("s", i - 1), s);
         }
       }},
      {"job.spec.sections[1].topology.required",
       [](JobSpec* s) {
         AddSection("a", "", s)->mutable_topology()->set_required(Topology::LEVEL_RACK);
         AddSection("b", "a", s)->mutable_topology()->set_required(Topology::LEVEL_ROW);
       }},
      {"job.spec.task_groups[0].topology.required",
       [](JobSpec* s) {
         AddSection("a", "", s)->mutable_topology()->set_required(Topology::LEVEL_RACK);
         AddSection("b", "a", s);
         s->mutable_task_groups(0)->mutable_topology()->set_required(Topology::LEVEL_RACK);
       }},
      {"job.spec.sections",
       [](JobSpec* s) {
         for (int i = 0; i <= kMaxSections; ++i) AddSection(absl::StrCat("s", i), "", s);
       }},
      {"job.spec.task_groups[0].min_replicas",
       [](JobSpec* s) {
         s->mutable_task_groups(0)->set_replicas(4);
         s->mutable_task_groups(0)->set_min_replicas(5);
       }},
      {"job.spec.task_groups[0].min_replicas",
       [](JobSpec* s) { s->mutable_task_groups(0)->set_min_replicas(-1); }},
      {"job.spec.priority", [](JobSpec* s) { s->set_priority(-1001); }},
      {"job.spec.task_groups", [](JobSpec* s) { s->clear_task_groups(); }},
      {"job.spec.task_groups[0].name",
       [](JobSpec* s) { s->mutable_task_groups(0)->set_name("Worker"); }},
      {"job.spec.task_groups[0].name",
       [](JobSpec* s) { s->mutable_task_groups(0)->set_name(std::string(33, 'a')); }},
      {"job.spec.task_groups[1].name",
       [](JobSpec* s) { *s->add_task_groups() = s->task_groups(0); }},
      {"job.spec.task_groups[0].replicas",
       [](JobSpec* s) { s->mutable_task_groups(0)->set_replicas(0); }},
      {"job.spec.task_groups",
       [](JobSpec* s) {
         s->mutable_task_groups(0)->set_replicas(10'000);
         *s->add_task_groups() = Good().task_groups(0);
         s->mutable_task_groups(1)->set_name("other");
       }},
      {"job.spec.task_groups[0].argv", [](JobSpec* s) { s->mutable_task_groups(0)->clear_argv(); }},
      {"job.spec.task_groups[0].argv[0]",
       [](JobSpec* s) { s->mutable_task_groups(0)->set_argv(0, "./train.py"); }},
      {"job.spec.task_groups[0].argv[0]",
       [](JobSpec* s) {
         s->set_bundle("sha256:" + std::string(64, '0'));
         s->mutable_task_groups(0)->set_argv(0, "python3");
       }},
      {"job.spec.task_groups[0].argv[0]",
       [](JobSpec* s) {
         s->set_bundle("sha256:" + std::string(64, '0'));
         s->mutable_task_groups(0)->set_argv(0, "../x");
       }},
      {"job.spec.task_groups[0].argv[1]",
       [](JobSpec* s) { s->mutable_task_groups(0)->add_argv(std::string("a\0b", 3)); }},
      {"job.spec.task_groups[0].env[CAPSTAN_RANK]",
       [](JobSpec* s) { (*s->mutable_task_groups(0)->mutable_env())["CAPSTAN_RANK"] = "1"; }},
      {"job.spec.task_groups[0].env[1X]",
       [](JobSpec* s) { (*s->mutable_task_groups(0)->mutable_env())["1X"] = "1"; }},
      {"job.spec.task_groups[0].resources.cpu_millis",
       [](JobSpec* s) { s->mutable_task_groups(0)->mutable_resources()->set_cpu_millis(0); }},
      {"job.spec.task_groups[0].resources.memory_bytes",
       [](JobSpec* s) {
         s->mutable_task_groups(0)->mutable_resources()->set_memory_bytes((1 << 20) - 1);
       }},
      {"job.spec.task_groups[0].resources.accelerators[gpu]",
       [](JobSpec* s) {
         (*s->mutable_task_groups(0)->mutable_resources()->mutable_accelerators())["gpu"] = 0;
       }},
      {"job.spec.retry.max_restarts",
       [](JobSpec* s) { s->mutable_retry()->set_max_restarts(1001); }},
      {"job.spec.retry.initial_back_off",
       [](JobSpec* s) {
         *s->mutable_retry()->mutable_initial_back_off() = ToProto(absl::Hours(2));
       }},
      {"job.spec.retry.max_back_off",
       [](JobSpec* s) {
         *s->mutable_retry()->mutable_max_back_off() = ToProto(absl::Milliseconds(1));
       }},
      {"job.spec.fence_after",
       [](JobSpec* s) { *s->mutable_fence_after() = ToProto(absl::Seconds(59)); }},
      {"job.spec.fence_after",
       [](JobSpec* s) { *s->mutable_fence_after() = ToProto(absl::Hours(25)); }},
      {"job.spec.stop_grace",
       [](JobSpec* s) { *s->mutable_stop_grace() = ToProto(absl::Minutes(8)); }},
      {"job.spec.stop_grace",
       [](JobSpec* s) { *s->mutable_stop_grace() = ToProto(absl::ZeroDuration()); }},
      {"job.spec.datasets[0].dataset",
       [](JobSpec* s) { s->add_datasets()->set_dataset("projects/other/datasets/d"); }},
      {"job.spec.datasets[0].version",
       [](JobSpec* s) {
         s->add_datasets()->set_dataset("projects/p/datasets/d");
         s->mutable_datasets(0)->set_version("latest");
       }},
      {"job.spec.datasets[0].mount_path",
       [](JobSpec* s) {
         s->add_datasets()->set_dataset("projects/p/datasets/d");
         s->mutable_datasets(0)->set_mount_path("/a/../b");
       }},
      {"job.spec.datasets[1].alias",
       [](JobSpec* s) {
         s->add_datasets()->set_dataset("projects/p/datasets/a-b");
         s->add_datasets()->set_dataset("projects/p/datasets/c");
         s->mutable_datasets(1)->set_alias("A_b");
       }},
      {"job.spec.bundle", [](JobSpec* s) { s->set_bundle("sha256:abc"); }},
      {"job.spec.clusters[1]",
       [](JobSpec* s) {
         s->add_clusters("a");
         s->add_clusters("a");
       }},
      {"job.spec.service_account",
       [](JobSpec* s) { s->set_service_account("projects/q/serviceAccounts/x"); }},
      {"job.spec.labels[]", [](JobSpec* s) { (*s->mutable_labels())[""] = "x"; }},
  };
  for (const Case& c : cases) {
    JobSpec spec = Good();
    c.change(&spec);
    const auto wrong = Wrong(spec);
    ASSERT_EQ(wrong.size(), 1u) << c.field << ": " << spec.ShortDebugString();
    EXPECT_EQ(wrong[0].field, c.field);
    EXPECT_FALSE(wrong[0].description.empty());
  }
}

TEST(ValidateTest, SaysEverythingThatIsWrongAtOnce) {
  JobSpec spec = Good();
  spec.set_priority(5000);
  spec.mutable_task_groups(0)->set_replicas(0);
  spec.mutable_task_groups(0)->set_name("");
  EXPECT_EQ(Wrong(spec).size(), 3u);
}

TEST(ValidateTest, TakesTheBoundsThemselves) {
  JobSpec spec = Good();
  spec.set_priority(1000);
  spec.mutable_task_groups(0)->set_replicas(10'000);
  spec.mutable_task_groups(0)->set_name(std::string(32, 'a'));
  *spec.mutable_fence_after() = ToProto(absl::Hours(24));
  *spec.mutable_stop_grace() = ToProto(absl::Hours(1));
  spec.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(kMaxCpuMillis);
  EXPECT_TRUE(Wrong(spec).empty());
  spec.set_bundle("sha256:" + std::string(64, 'a'));
  spec.mutable_task_groups(0)->set_argv(0, "bin/train");
  EXPECT_TRUE(Wrong(spec).empty());
}

TEST(ValidateTest, AHalfLifeIsNoneOrAMinuteToAYear) {
  const auto wrong = [](absl::Duration half_life) {
    capstan::scheduler::v1::Queue queue;
    *queue.mutable_usage_half_life() = ToProto(half_life);
    status::FieldErrors errors;
    ValidateQueue("q", queue, &errors);
    const auto violations = status::GetFieldViolations(errors.ToStatus());
    return violations.empty() ? std::string() : violations[0].field;
  };
  for (const absl::Duration good :
       {absl::ZeroDuration(), kMinUsageHalfLife, absl::Hours(24 * 7), kMaxUsageHalfLife}) {
    EXPECT_EQ(wrong(good), "") << good;
  }
  for (const absl::Duration bad :
       {-absl::Seconds(1), absl::Nanoseconds(1), kMinUsageHalfLife - absl::Nanoseconds(1),
        kMaxUsageHalfLife + absl::Nanoseconds(1)}) {
    EXPECT_EQ(wrong(bad), "queue.usage_half_life") << bad;
  }
}

TEST(ValidateTest, ARateIsACountInATime) {
  const auto wrong = [](int64_t count, absl::Duration period, int64_t burst) {
    capstan::scheduler::v1::Queue queue;
    queue.mutable_start_rate()->set_count(count);
    queue.mutable_start_rate()->set_burst(burst);
    *queue.mutable_start_rate()->mutable_period() = ToProto(period);
    status::FieldErrors errors;
    ValidateQueue("q", queue, &errors);
    const auto violations = status::GetFieldViolations(errors.ToStatus());
    return violations.size() == 1 ? violations[0].field : std::string();
  };
  EXPECT_EQ(wrong(1, absl::Milliseconds(1), 0), "");
  EXPECT_EQ(wrong(1'000'000'000, absl::Hours(24), 1'000'000'000), "");
  EXPECT_EQ(wrong(0, absl::Seconds(1), 0), "queue.start_rate.count");
  EXPECT_EQ(wrong(1, absl::ZeroDuration(), 0), "queue.start_rate.period");
  EXPECT_EQ(wrong(1, absl::Hours(25), 0), "queue.start_rate.period");
  EXPECT_EQ(wrong(1, absl::Seconds(1), -1), "queue.start_rate.burst");
}

TEST(ValidateTest, RefusesASpecBeyond256KiB) {
  JobSpec spec = Good();
  for (int i = 0; i < 3; ++i) spec.mutable_task_groups(0)->add_argv(std::string(100'000, 'x'));
  ASSERT_EQ(Wrong(spec).size(), 1u);
  EXPECT_EQ(Wrong(spec)[0].field, "job.spec");
}

}  // namespace
}  // namespace capstan::scheduler
