// Scripts for sbatch that start a launcher on each host: what `lockstep slurm` writes, and what `--check` finds.
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tools/slurm/sbatch_file.h"

namespace lockstep {
namespace {

std::vector<std::string> findings_in(const std::string& text) {
  std::vector<std::string> findings;
  for (const FileFinding& finding : check_sbatch_file(text)) {
    findings.push_back(std::to_string(finding.line) + ": " + finding.problem + " | " + finding.fix);
  }
  return findings;
}

SbatchOptions job_of(std::vector<std::string> command, int nodes = 2) {
  SbatchOptions options;
  options.nodes = nodes;
  options.time = "2:00:00";
  options.command = std::move(command);
  return options;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(SbatchLauncher, GetsThePlaceOfItsHost) {
  const std::string text =
      sbatch_file(job_of({"lockstep", "run", "--nnodes", "2", "--nproc-per-node", "4", "lockstep", "train"}));
  EXPECT_TRUE(contains(text,
                       "\nexport MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames "
                       "\"$SLURM_JOB_NODELIST\" | head -n 1)}\n"))
      << text;
  EXPECT_TRUE(contains(text,
                       "\nsrun sh -c 'exec lockstep run --node-rank \"$SLURM_NODEID\" --master-addr \"$MASTER_ADDR\" "
                       "--master-port \"$MASTER_PORT\" \"$@\"' lockstep --nnodes 2 --nproc-per-node 4 lockstep "
                       "train\n"))
      << text;
  EXPECT_EQ(findings_in(text), std::vector<std::string>());
}

TEST(SbatchLauncher, GetsTheNumberOfHostsAndKeepsItsQuotes) {
  const std::string text = sbatch_file(job_of({"/my path/lockstep", "run", "./train", "--name", "it's"}, 3));
  EXPECT_TRUE(contains(text,
                       "\nsrun sh -c 'exec \"$0\" run --nnodes 3 --node-rank \"$SLURM_NODEID\" --master-addr "
                       "\"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \"$@\"' '/my path/lockstep' ./train --name "
                       "'it'\\''s'\n"))
      << text;
}

TEST(SbatchLauncher, OfOneHostOrByArrivalNeedsNoPlace) {
  const std::string one = sbatch_file(job_of({"lockstep", "run", "--nproc-per-node", "4", "./train"}, 1));
  EXPECT_TRUE(contains(one, "\nsrun lockstep run --nproc-per-node 4 ./train\n")) << one;
  EXPECT_EQ(findings_in(one), std::vector<std::string>());
  const std::string elastic =
      sbatch_file(job_of({"lockstep", "run", "--nnodes", "1:2", "--rdzv-endpoint", "node1:29500", "./train"}));
  EXPECT_TRUE(contains(elastic, "\nsrun lockstep run --nnodes 1:2")) << elastic;
  EXPECT_EQ(findings_in(elastic), std::vector<std::string>());
}

TEST(SbatchLauncher, OfEachKindGetsItsOwnFlags) {
  const std::string launch = sbatch_file(job_of({"lockstep", "launch", "./train"}));
  EXPECT_TRUE(contains(launch,
                       "exec lockstep launch --num-machines 2 --machine-rank \"$SLURM_NODEID\" "
                       "--main-process-ip \"$MASTER_ADDR\" --main-process-port \"$MASTER_PORT\""))
      << launch;
  EXPECT_EQ(findings_in(launch), std::vector<std::string>());
  const std::string torchrun = sbatch_file(job_of({"torchrun", "train.py"}));
  EXPECT_TRUE(contains(torchrun, "exec torchrun --nnodes 2 --node-rank \"$SLURM_NODEID\"")) << torchrun;
}

TEST(SbatchLauncher, RefusesWhatWouldStartTooManyOrTooFew) {
  SbatchOptions several = job_of({"lockstep", "run", "./train"});
  several.ntasks_per_node = 4;
  EXPECT_THROW(sbatch_file(several), UsageError);
  EXPECT_THROW(sbatch_file(job_of({"lockstep", "run", "--nnodes=4", "./train"})), UsageError);
  SbatchOptions with_gpus = job_of({"lockstep", "run", "--nproc-per-node", "8", "./train"});
  with_gpus.gpus_per_node = 8;
  EXPECT_EQ(findings_in(sbatch_file(with_gpus)), std::vector<std::string>());
}

struct LauncherScript {
  const char* name;
  const char* text;  // after "#!/bin/bash\n#SBATCH --nodes=2\n"
  const char* line;  // "": nothing is found
  const char* part;
  friend std::ostream& operator<<(std::ostream& out, const LauncherScript& c) { return out << c.name; }
};
class LauncherCheck : public ::testing::TestWithParam<LauncherScript> {};

TEST_P(LauncherCheck, Finds) {
  const auto found = findings_in(std::string("#!/bin/bash\n#SBATCH --nodes=2\n") + GetParam().text + "\n");
  if (std::string(GetParam().line).empty()) {
    EXPECT_EQ(found, std::vector<std::string>());
    return;
  }
  ASSERT_EQ(found.size(), 1U) << ::testing::PrintToString(found);
  EXPECT_EQ(found[0].rfind(std::string(GetParam().line) + ": ", 0), 0U) << found[0];
  EXPECT_TRUE(contains(found[0], GetParam().part)) << found[0];
}

constexpr const char* kTorchrunWithPlace =
    "srun bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr $A a.py'";

INSTANTIATE_TEST_SUITE_P(
    Places, LauncherCheck,
    ::testing::Values(
        LauncherScript{"no_place", "srun lockstep run --nnodes 2 ./t", "3", "no --node-rank, --master-addr"},
        LauncherScript{"no_address", "srun sh -c 'lockstep run --nnodes 2 --node-rank $SLURM_NODEID ./t'", "3",
                       "no --master-addr"},
        LauncherScript{"no_number_of_hosts", "srun lockstep run ./t", "3", "no --nnodes, --node-rank, --master-addr"},
        LauncherScript{"torchrun", "srun torchrun --nnodes=2 --master_addr=$A a.py", "3", "no --node-rank"},
        LauncherScript{"a_module", "srun python3 -m torch.distributed.run --nnodes 2 a.py", "3", "no --node-rank"},
        LauncherScript{"accelerate", "srun accelerate launch --num_machines 2 a.py", "3", "no --machine-rank"},
        LauncherScript{"in_a_container", "srun singularity exec x.sif torchrun --nnodes 2 a.py", "3", "no --node-rank"},
        LauncherScript{"the_scripts_own_variable",
                       "srun lockstep run --nnodes 2 --node-rank $SLURM_NODEID --master-addr $A ./t", "3",
                       "replaces the variable"},
        LauncherScript{"in_double_quotes",
                       "srun sh -c \"lockstep run --nnodes 2 --node-rank $SLURM_NODEID --master-addr $A ./t\"", "3",
                       "replaces the variable"},
        LauncherScript{"one_number_for_all", "srun lockstep run --nnodes 2 --node-rank 0 --master-addr $A ./t", "3",
                       "--node-rank is 0 on each"},
        LauncherScript{
            "several_on_a_host",
            "srun --ntasks-per-node=4 sh -c 'lockstep run --nnodes 2 --node-rank $SLURM_NODEID --master-addr "
            "$A ./t'",
            "3", "4 times on each host"},
        LauncherScript{"in_single_quotes",
                       "srun sh -c 'lockstep run --nnodes 2 --node-rank $SLURM_NODEID --master-addr $A ./t'", "", ""},
        LauncherScript{"escaped",
                       "srun sh -c \"lockstep run --nnodes 2 --node-rank \\$SLURM_NODEID --master-addr $A ./t\"", "",
                       ""},
        LauncherScript{"with_a_place", kTorchrunWithPlace, "", ""},
        LauncherScript{"by_arrival", "srun torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint $A a.py", "", ""},
        LauncherScript{"by_variables", "export PET_NNODES=2\nsrun sh -c 'PET_NODE_RANK=$SLURM_NODEID torchrun a.py'",
                       "", ""},
        LauncherScript{"on_one_host", "srun --nodes 1 lockstep run ./t", "", ""},
        LauncherScript{"a_word_of_another_program", "srun ./t --launcher torchrun", "", ""}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Warnings, LauncherCheck,
    ::testing::Values(
        LauncherScript{"to_the_shell_alone", "#SBATCH --signal=B:USR1@120\nsrun ./t", "3",
                       "to the batch script's shell"},
        LauncherScript{"with_a_trap", "#SBATCH --signal=B:USR1@120\ntrap 'kill -USR1 $P' USR1\nsrun ./t &\nP=$!\nwait",
                       "", ""},
        LauncherScript{"to_no_launcher", "#SBATCH --signal=USR1@120\nsrun ./a\nlockstep run ./t", "5", "would lose it"},
        LauncherScript{"torchrun_dies", "#SBATCH --signal=USR1@120\nsrun -N 1 torchrun a.py", "4",
                       "torchrun dies of SIGUSR1"},
        LauncherScript{"accelerate_dies", "#SBATCH --signal=SIGUSR2@120\nsrun -N 1 accelerate launch a.py", "4",
                       "accelerate launch dies of SIGUSR2"},
        LauncherScript{"by_number", "#SBATCH --signal=10\nsrun -N 1 torchrun a.py", "4", "torchrun dies of SIGUSR1"},
        LauncherScript{"torchrun_handles_sigterm", "#SBATCH --signal=TERM@120\nsrun -N 1 torchrun a.py", "", ""},
        LauncherScript{"torchrun_is_told",
                       "#SBATCH --signal=USR1@120\nsrun -N 1 torchrun --signals-to-handle SIGTERM,SIGUSR1 a.py", "",
                       ""},
        LauncherScript{"the_shell_around_it_dies",
                       "#SBATCH --signal=USR1@120\nsrun -N 1 sh -c 'lockstep run ./t; echo done'", "4",
                       "the shell around lockstep run"},
        LauncherScript{"the_shell_has_a_trap",
                       "#SBATCH --signal=USR1@120\nsrun -N 1 sh -c 'trap : USR1; lockstep run ./t; echo done'", "", ""},
        LauncherScript{"the_shell_becomes_it",
                       "#SBATCH --signal=USR1@120\nsrun -N 1 sh -c 'cd x && exec lockstep run ./t'", "", ""},
        LauncherScript{"nobody_can_save", "#SBATCH --signal=KILL@120\nsrun ./t", "3", "save upon SIGKILL"},
        LauncherScript{"a_launcher_of_lockstep", "#SBATCH --signal=USR1@120\nsrun -N 1 lockstep run ./t", "", ""},
        LauncherScript{"mpirun", "#SBATCH --signal=USR1@120\nmpirun ./t\nsrun hostname", "4", "put srun"}),
    [](const auto& test) { return test.param.name; });

// One task without srun is not signalled either.
TEST(LauncherCheckOfOneTask, NamesATrainingThatTheScriptRunsItself) {
  const auto found = findings_in("#!/bin/bash\n#SBATCH --signal=USR1@120\nlockstep train --config a.json\n");
  ASSERT_EQ(found.size(), 1U) << ::testing::PrintToString(found);
  EXPECT_TRUE(contains(found[0], "3: Slurm sends SIGUSR1 to what srun starts")) << found[0];
}

}  // namespace
}  // namespace lockstep
