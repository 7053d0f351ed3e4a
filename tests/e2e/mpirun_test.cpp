// Tests programs under mpirun, without Lockstep's launcher.
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "tests/e2e/launch.h"
#include "tests/support/mpi_places.h"
#include "tests/support/test_size.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

class Mpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = MpiPlaces::why_not()) GTEST_SKIP() << *reason;
    const auto made =
        run_program({kBin + "/lockstep", "data", "digits", "--output", digits(), "--train", "400", "--test", "100"});
    ASSERT_EQ(made.code, 0) << made.err;
    changes_ = mpirun_changes();
    changes_["LOCKSTEP_LOG_LEVEL"] = "info";
    changes_["OMP_NUM_THREADS"] = "1";
    changes_["OPENBLAS_NUM_THREADS"] = "1";
  }
  std::string digits() const { return folder_ / "digits"; }
  Words mnist(const std::string& backend) const {
    Words words{kBin + "/ddp_mnist", "--data", digits(), "--batch_size", "50", "--epochs", "1"};
    if (!backend.empty()) words.insert(words.end(), {"--backend", backend});
    return words;
  }
  static Words join(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Whom the ranks of `mpirun` talk through, by --backend.
  static std::map<std::string, std::string> engines(const std::string& by_default) {
    if (test_size(true, false)) return {{"", by_default}};
    return {{"", by_default}, {"mpi", "mpi"}};
  }

  const TemporaryFolder folder_;
  Changes changes_;
};
using MpirunLong = Mpirun;

TEST_F(Mpirun, StartsTheRanksOfOneHost) {
  for (const auto& [backend, engine] : engines("shm")) {
    const ProgramEnd end = run_program(join(mpirun_words(4), mnist(backend)), changes_);
    EXPECT_EQ(end.code, 0) << end.err;
    for (const char* rank : {"0", "1", "2", "3"}) {
      EXPECT_TRUE(has(end.out, std::string("hello! Node # ") + rank + " is running!")) << end.out;
    }
    EXPECT_TRUE(has(end.out, "Accuracy on the test images:")) << end.out;
    EXPECT_TRUE(has(end.err, "process group of 4 ranks over engine " + engine)) << end.err;
  }
}

TEST_F(MpirunLong, StartsTheRanksOfTwoHosts) {
  if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
  const NetworkHosts hosts(2, "1gbit");
  // Replaces ssh: mpirun calls it with the host and a command line.
  const std::string agent = folder_ / "agent";
  std::string script = "#!/bin/sh\nshift\nexec";
  for (const std::string& word : hosts.on(1, {"sh", "-c"})) script += " '" + word + "'";
  write_file_atomically(agent, script + " \"$*\"\n");
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  const std::string places = hosts.address(0) + ":2," + hosts.address(1) + ":2";
  for (const auto& [backend, engine] : engines("hierarchical")) {
    const Words words =
        join(join(mpirun_words(4), {"--mca", "plm_rsh_agent", agent, "-H", places, "-x", "LOCKSTEP_LOG_LEVEL", "-x",
                                    "OMP_NUM_THREADS", "-x", "OPENBLAS_NUM_THREADS"}),
             mnist(backend));
    const ProgramEnd end = run_program(hosts.on(0, words), changes_);
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_TRUE(has(end.out, "Accuracy on the test images:")) << end.out;
    EXPECT_TRUE(has(end.err, "process group of 4 ranks over engine " + engine)) << end.err;
  }
}

TEST_F(Mpirun, IsNeededByItsEngine) {
  const ProgramEnd end = run({"--nproc-per-node", "2"}, mnist("mpi"), changes_);
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "this process was not started by mpirun")) << end.err;
  EXPECT_TRUE(has(end.err, "mpirun -np RANKS PROGRAM")) << end.err;
}

}  // namespace
}  // namespace lockstep
