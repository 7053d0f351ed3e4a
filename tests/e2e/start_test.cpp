// Tests how a process starts, under any launcher: kernels, threads, heap and standard streams.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/start/amx.h"
#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

const std::string kReport = kBin + "/start_report";

Changes without_choices(const Changes& more = {}) {
  Changes changes = kNoThreads;
  for (const char* name :
       {"OPENBLAS_CORETYPE", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LOCKSTEP_CHOSEN",
        "LOCKSTEP_MALLOC", "LOCAL_WORLD_SIZE", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
    changes[name] = std::nullopt;
  }
  for (const auto& [name, value] : more) changes[name] = value;
  return changes;
}

// Parses NAME=VALUE lines.
std::map<std::string, std::string> lines_of(const std::string& text) {
  std::map<std::string, std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) lines[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return lines;
}

std::map<std::string, std::string> report(const Words& command, const Changes& changes) {
  const ProgramEnd end = run_program(command, without_choices(changes));
  EXPECT_EQ(end.code, 0) << end.err;
  return lines_of(end.out);
}

std::map<std::string, std::string> report(const Changes& changes = {}) { return report(Words{kReport}, changes); }

// Whether the kernel reports this property of the processor.
bool cpuinfo_has(const std::string& word) { return has(content("/proc/cpuinfo"), word); }

// By OpenBLAS's names. If OpenBLAS may not know the processor, Lockstep chooses.
void expect_kernels_that_fit(std::map<std::string, std::string> lines) {
  const std::string& kernels = lines["kernels"];
  if (!cpuinfo_has("avx2")) return;
  for (const char* slow : {"Prescott", "Core2", "Nehalem", "Barcelona", "Sandybridge"}) EXPECT_NE(kernels, slow);
  if (!cpuinfo_has("GenuineIntel")) return;
  EXPECT_EQ(kernels, cpuinfo_has("avx512bw") ? "SkylakeX" : "Haswell");
}

class Start : public ::testing::Test {
 protected:
  static bool has_openblas() { return !report()["kernels"].empty(); }
};

// Seconds: three programs load LibTorch.
TEST_F(Start, GivesEveryProgramTheKernelsOfItsProcessor) {
  if (!has_openblas()) GTEST_SKIP() << "this LibTorch does not use OpenBLAS";
  expect_kernels_that_fit(report());
  expect_kernels_that_fit(report({kBin + "/lockstep", "run", "--nproc-per-node=1", kReport}, {}));
  expect_kernels_that_fit(report({"env", "-i", kReport}, {}));
}

TEST_F(Start, LeavesTheUsersKernels) {
  if (!has_openblas()) GTEST_SKIP() << "this LibTorch does not use OpenBLAS";
  const Changes prescott{{"OPENBLAS_CORETYPE", "Prescott"}};
  for (const Words& command : {Words{kReport}, launch({"--nproc-per-node=1"}, {kReport})}) {
    auto lines = report(command, prescott);
    EXPECT_EQ(lines["kernels"], "Prescott");
    EXPECT_EQ(lines["OPENBLAS_CORETYPE"], "Prescott");
  }
  const ProgramEnd end = run_program({kReport, "join"}, without_choices(prescott));
  EXPECT_TRUE(has(end.out, "joined=yes")) << end.err;
  EXPECT_FALSE(has(end.err, "matrix products")) << "the user chose: " << end.err;
}

TEST_F(Start, WarnsOnceOfKernelsThatItCouldNotChoose) {
  if (!has_openblas() || !cpuinfo_has("avx2")) GTEST_SKIP() << "no OpenBLAS, or no better kernels than the oldest";
  const ProgramEnd end =
      run_program({kReport, "forget-and-join"}, without_choices({{"OPENBLAS_CORETYPE", "Prescott"}}));
  EXPECT_TRUE(has(end.out, "joined=yes")) << end.err;
  const std::string factor = cpuinfo_has("avx512bw") ? "up to 4 times as long" : "up to 2 times as long";
  EXPECT_TRUE(has(end.err, factor)) << end.err;
  EXPECT_TRUE(has(end.err, "export OPENBLAS_CORETYPE=")) << end.err;
  EXPECT_EQ(end.err.find("matrix products"), end.err.rfind("matrix products"));
}

constexpr const char* kWithheldAmx = "does not describe the tiles";

// Ends with SIGILL on a processor that offers AMX without describing it, unless oneDNN leaves it alone. That is said
// once for a job: by the launcher, or by the program when it joins.
TEST_F(Start, MultipliesInBf16) {
  const Changes changes = without_choices({{"ONEDNN_MAX_CPU_ISA", std::nullopt}, {"DNNL_MAX_CPU_ISA", std::nullopt}});
  const bool is_withheld = amx_of_processor() == Amx::Undescribed;
  const ProgramEnd alone = run_program({kReport, "bf16"}, changes);
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(lines_of(alone.out)["product"], "16777216.000000");
  const ProgramEnd ranks = run_program(launch({"--nproc-per-node=2"}, {kReport, "bf16"}), changes);
  EXPECT_EQ(ranks.code, 0) << ranks.err;
  EXPECT_EQ(lines_of(ranks.out)["product"], "16777216.000000");
  const ProgramEnd joined = run_program({kReport, "join"}, changes);
  for (const ProgramEnd& end : {ranks, joined}) {
    EXPECT_EQ(has(end.err, kWithheldAmx), is_withheld) << end.err;
    EXPECT_EQ(end.err.find(kWithheldAmx), end.err.rfind(kWithheldAmx)) << end.err;
  }
}

// Shows that the constructors of OpenBLAS and OpenMP have read settings made before them.
TEST_F(Start, SharesTheCoresAmongTheRanksOfTheHost) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    auto lines = report({{name, "1000000"}, {"LAST_WORD", "kept"}});
    EXPECT_EQ(lines["openmp_threads"], "1") << name;
    EXPECT_TRUE(lines["kernels"].empty() || lines["blas_threads"] == "1") << name << ": " << lines["blas_threads"];
    EXPECT_EQ(lines["torch_threads"], "1") << name;
    EXPECT_EQ(lines["MKL_NUM_THREADS"], "1") << "set for those who read it later";
    EXPECT_TRUE(has(lines["LOCKSTEP_CHOSEN"], "OMP_NUM_THREADS=1"));
    EXPECT_EQ(lines["LAST_WORD"], "kept");
    EXPECT_EQ(lines["auxiliary_vector"], "whole");
  }
  EXPECT_EQ(report({{"SLURM_STEP_NUM_TASKS", "1000"},
                    {"SLURM_STEP_TASKS_PER_NODE", "1000"},
                    {"SLURM_NODEID", "0"}})["openmp_threads"],
            "1");
}

// A program that was alone, and so took all cores, starts ranks, which inherit its environment.
TEST_F(Start, ChoosesAnewWhereItWasChosenForAnotherNumberOfRanks) {
  auto alone = report();
  Changes inherited{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1000000"}, {"LAST_WORD", "kept"}};
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE",
                           "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "LOCKSTEP_CHOSEN"}) {
    if (alone[name] != "unset") inherited[name] = alone[name];
  }
  auto lines = report(inherited);
  for (const char* name : {"openmp_threads", "torch_threads", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    EXPECT_EQ(lines[name], "1") << name;
  }
  EXPECT_TRUE(lines["kernels"].empty() || lines["blas_threads"] == "1") << lines["blas_threads"];
  EXPECT_EQ(lines["kernels"], alone["kernels"]);
  EXPECT_EQ(lines["OPENBLAS_CORETYPE"], alone["OPENBLAS_CORETYPE"]);
  EXPECT_EQ(lines["LAST_WORD"], "kept");
  EXPECT_EQ(lines["auxiliary_vector"], "whole");
  inherited["OMP_NUM_THREADS"] = "3";
  EXPECT_EQ(report(inherited)["openmp_threads"], "3") << "changed since: the user's";
}

// What GNU's OpenMP read in its constructor; empty if another one, or none, is loaded.
std::string spins_of(const Words& command, Changes changes) {
  changes["OMP_DISPLAY_ENV"] = "verbose";
  const ProgramEnd end = run_program(command, without_choices(changes));
  EXPECT_EQ(end.code, 0) << end.err;
  const std::string name = "GOMP_SPINCOUNT = '";
  const std::size_t at = end.err.rfind(name);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size();
  return end.err.substr(begin, end.err.find('\'', begin) - begin);
}

// Threads that spin keep those for which they wait from computing if other programs want the cores.
TEST_F(Start, LetsIdleThreadsSleepSoon) {
  if (spins_of({kReport}, {}).empty()) GTEST_SKIP() << "this LibTorch does not use GNU's OpenMP";
  EXPECT_EQ(spins_of({kReport}, {}), "20000");
  EXPECT_EQ(spins_of({"env", "-i", "OMP_DISPLAY_ENV=verbose", kReport}, {}), "20000");
  EXPECT_EQ(spins_of(launch({"--nproc-per-node=1"}, {kReport}), {}), "20000");
  EXPECT_EQ(spins_of({kReport}, {{"GOMP_SPINCOUNT", "7"}}), "7") << "the user chose";
  EXPECT_NE(spins_of({kReport}, {{"OMP_WAIT_POLICY", "active"}}), "20000") << "the user chose";
  EXPECT_EQ(report()["auxiliary_vector"], "whole");
}

TEST_F(Start, LeavesTheUsersThreadsAndAloneTakesAllCores) {
  auto lines = report({{"LOCAL_WORLD_SIZE", "1000000"}, {"OMP_NUM_THREADS", "3"}});
  EXPECT_EQ(lines["openmp_threads"], "3");
  EXPECT_EQ(lines["OPENBLAS_NUM_THREADS"], "unset") << "it follows";
  const std::string of_a_rank = report(launch({"--nproc-per-node=1"}, {kReport}), {})["OMP_NUM_THREADS"];
  lines = report();
  EXPECT_EQ(lines["OMP_NUM_THREADS"], of_a_rank) << "as a single rank of `lockstep run`";
  EXPECT_EQ(lines["torch_threads"], of_a_rank);
}

// Ranks started by hand: no launcher counts those of the host, so each takes all cores until the group has met.
TEST_F(Start, SharesTheCoresAmongRanksThatStartedByHand) {
  auto alone = report();
  const int share = std::max(1, std::stoi(alone["torch_threads"]) / 2);
  const std::string both =
      "RANK=1 " + kReport + " join-as-rank > /dev/null & RANK=0 " + kReport + " join-as-rank; wait";
  const LoopbackPort port;
  const Changes by_hand{{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port.text()}};
  auto lines = report(shell(both), by_hand);
  EXPECT_EQ(lines["torch_threads"], alone["torch_threads"]) << "before it knew of the other rank";
  EXPECT_EQ(lines["torch_threads_in_group"], std::to_string(share));
  EXPECT_EQ(lines["torch_threads_in_group_of_one"], alone["torch_threads"]) << "its next group is alone";
  EXPECT_TRUE(lines["kernels"].empty() || lines["blas_threads_in_group"] == std::to_string(share));

  Changes chosen = by_hand;
  // Not more threads than cores: LibTorch with MKL takes no more.
  chosen["OMP_NUM_THREADS"] = alone["torch_threads"];
  const LoopbackPort other_port;
  chosen["MASTER_PORT"] = other_port.text();
  EXPECT_EQ(report(shell(both), chosen)["torch_threads_in_group"], alone["torch_threads"]) << "the user's choice stays";
}

// A launcher inside a rank divides the rank's cores, and does not take their number for the user's choice.
TEST_F(Start, DividesAmongRanksOfARank) {
  const std::string inner = kBin + "/lockstep run --nproc-per-node=2 " + kReport;
  const ProgramEnd end = run_program(launch({"--nproc-per-node=1"}, shell(inner)), without_choices());
  ASSERT_EQ(end.code, 0) << end.err;
  const int outer = std::stoi(report(launch({"--nproc-per-node=1"}, {kReport}), {})["OMP_NUM_THREADS"]);
  EXPECT_EQ(lines_of(end.out)["OMP_NUM_THREADS"], std::to_string(std::max(1, outer / 2)));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Start, MakesTheHeapKeepWhatWasFreed) {
  EXPECT_EQ(report()["heap"], "keeps");
  EXPECT_EQ(report({{"LOCKSTEP_MALLOC", "system"}})["heap"], "gives back");
  EXPECT_EQ(report({{"MALLOC_TRIM_THRESHOLD_", "131072"}})["heap"], "gives back") << "the user chose";
}
#endif

TEST_F(Start, SaysAMisspeltSettingOfTheHeapWhenTheProgramJoins) {
  const ProgramEnd end = run_program({kReport, "join"}, without_choices({{"LOCKSTEP_MALLOC", "some"}}));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "LOCKSTEP_MALLOC is \"some\"")) << end.err;
}

TEST_F(Start, OpensTheStreamsThatAreClosed) {
  const ProgramEnd end = run_program(shell(kReport + " <&- 2>&-"), without_choices());
  EXPECT_EQ(end.code, 0);
  EXPECT_FALSE(has(end.out, "closed=")) << end.out;
}

TEST_F(Start, IsShownByTheCommand) {
  const auto environment = [](const Changes& changes) {
    const ProgramEnd end = run_program({kBin + "/lockstep", "env", "--json"}, without_choices(changes));
    EXPECT_EQ(end.code, 0) << end.err;
    return nlohmann::json::parse(end.out);
  };
  auto shown = environment({});
  EXPECT_EQ(shown["heap"]["GLIBC_TUNABLES"], "glibc.malloc.hugetlb=1, set by Lockstep");
  if (!shown["blas"].contains("kernels")) GTEST_SKIP() << "this LibTorch does not use OpenBLAS";
  expect_kernels_that_fit({{"kernels", shown["blas"]["kernels"]}});
  EXPECT_TRUE(shown["warning"].empty()) << shown["warning"];
  shown = environment({{"OPENBLAS_CORETYPE", "Prescott"}, {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=0"}});
  EXPECT_EQ(shown["blas"]["kernels_chosen_by"], "the user, by OPENBLAS_CORETYPE");
  EXPECT_EQ(shown["heap"]["GLIBC_TUNABLES"], "glibc.malloc.hugetlb=0");
  EXPECT_EQ(shown["heap"]["MALLOC_TRIM_THRESHOLD_"], "unset");
  if (cpuinfo_has("avx2")) {
    ASSERT_EQ(shown["warning"].size(), 1U);
    EXPECT_TRUE(has(shown["warning"][0], "uses its Prescott kernels")) << shown["warning"];
  }
}

}  // namespace
}  // namespace lockstep
