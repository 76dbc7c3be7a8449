#include "libs/cgroup/usage.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace capstan::cgroup {
namespace {

Paths Hybrid(const std::string& v2, const std::string& memory) {
  Paths paths;
  paths.v2 = v2;
  paths.v1_memory = memory;
  return paths;
}

Paths V2(const std::string& folder) { return Hybrid(folder, ""); }

Paths V1(const std::string& freezer, const std::string& cpu) {
  Paths paths;
  paths.v1_freezer = freezer;
  paths.v1_cpu = cpu;
  return paths;
}

class UsageTest : public ::testing::Test {
 protected:
  UsageTest() : folder_(testing::TempDir() + "/usageXXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  std::string Folder(const std::string& name) const {
    const std::string path = absl::StrCat(folder_, "/", name);
    mkdir(path.c_str(), 0755);
    return path;
  }
  static void Write(const std::string& folder, const std::string& name, const std::string& text) {
    std::ofstream file(absl::StrCat(folder, "/", name));
    file << text;
  }
  std::string folder_;
};

TEST_F(UsageTest, ReadsTheFilesOfVersion2) {
  const std::string v2 = Folder("v2");
  Write(v2, "cpu.stat", "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n");
  Write(v2, "memory.current", "104857600\n");
  Write(v2, "memory.peak", "209715200\n");
  Write(v2, "memory.stat", "anon 1\ninactive_file 4194304\nactive_file 7\n");
  Write(v2, "cgroup.procs", "10\n11\n");
  Write(v2, "io.stat",
        "254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"
        "254:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n");
  Write(Folder("v2/below"), "cgroup.procs", "12\n");
  const Usage usage = ReadUsage(V2(v2));
  EXPECT_EQ(usage.cpu_time, absl::Milliseconds(2500));
  EXPECT_EQ(usage.memory_bytes, (100 - 4) << 20);
  EXPECT_EQ(usage.memory_peak_bytes, 200 << 20);
  EXPECT_EQ(usage.processes, 3);
  EXPECT_EQ(ReadProcesses(V2(v2)), (std::vector<pid_t>{10, 11, 12}));
  EXPECT_TRUE(ReadProcesses(V2(folder_ + "/gone")).empty());
  EXPECT_EQ(usage.io_read_bytes, 4097);
  EXPECT_EQ(usage.io_write_bytes, 8194);
}

TEST_F(UsageTest, InAHybridVersion1AccountsMemoryAndVersion2Cpu) {
  const std::string v2 = Folder("v2");
  const std::string memory = Folder("memory");
  Write(v2, "cpu.stat", "usage_usec 1000\n");
  Write(v2, "cgroup.procs", "");
  Write(memory, "memory.usage_in_bytes", "1000\n");
  Write(memory, "memory.max_usage_in_bytes", "3000\n");
  Write(memory, "memory.stat", "inactive_file 1\ntotal_inactive_file 400\n");
  const Usage usage = ReadUsage(Hybrid(v2, memory));
  EXPECT_EQ(usage.cpu_time, absl::Milliseconds(1));
  EXPECT_EQ(usage.memory_bytes, 600);
  EXPECT_EQ(usage.memory_peak_bytes, 3000);
  EXPECT_EQ(usage.processes, 0);
  EXPECT_FALSE(usage.io_read_bytes.has_value());
}

TEST_F(UsageTest, Version1AloneHasNanoseconds) {
  const std::string cpu = Folder("cpu");
  const std::string freezer = Folder("freezer");
  Write(cpu, "cpuacct.usage", "1500000000\n");
  Write(freezer, "cgroup.procs", "7\n");
  const Usage usage = ReadUsage(V1(freezer, cpu));
  EXPECT_EQ(usage.cpu_time, absl::Milliseconds(1500));
  EXPECT_EQ(usage.processes, 1);
  EXPECT_FALSE(usage.memory_bytes.has_value());
}

TEST_F(UsageTest, WhatIsNotAccountedIsNotZero) {
  for (const Paths& paths : {Paths(), V2(folder_ + "/gone")}) {
    const Usage usage = ReadUsage(paths);
    EXPECT_FALSE(usage.cpu_time.has_value());
    EXPECT_FALSE(usage.memory_bytes.has_value());
    EXPECT_FALSE(usage.memory_peak_bytes.has_value());
    EXPECT_FALSE(usage.processes.has_value());
    EXPECT_FALSE(usage.io_write_bytes.has_value());
  }
  const std::string v2 = Folder("v2");
  Write(v2, "cpu.stat", "usage_usec many\n");
  Write(v2, "memory.current", "max\n");
  EXPECT_FALSE(ReadUsage(V2(v2)).cpu_time.has_value());
  EXPECT_FALSE(ReadUsage(V2(v2)).memory_bytes.has_value());
}

TEST_F(UsageTest, FilesReadOneAfterTheOtherMakeNoNegativeUse) {
  const std::string v2 = Folder("v2");
  Write(v2, "memory.current", "100\n");
  Write(v2, "memory.stat", "inactive_file 4096\n");
  EXPECT_EQ(ReadUsage(V2(v2)).memory_bytes, 0);
}

}  // namespace
}  // namespace capstan::cgroup
