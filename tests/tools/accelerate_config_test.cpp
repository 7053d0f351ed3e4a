// Accelerate's configuration file: what Accelerate writes is read; a value without a meaning here is refused by line.
#include "tools/accelerate/accelerate_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "tests/support/temporary_folder.h"
#include "tools/accelerate/config_questions.h"

namespace lockstep {
namespace {

// Written by `accelerate config` for two GPUs of one machine.
constexpr const char* kTwoGpus = R"(compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_GPU
downcast_bf16: 'no'
enable_cpu_affinity: false
gpu_ids: 0,1
machine_rank: 0
main_training_function: main
mixed_precision: 'no'
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
)";

class AccelerateFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text, const std::string& name = "config.yaml") const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string refusal(const std::string& text) const {
    try {
      read_accelerate_config(write(text));
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
  TemporaryFolder folder_;
};

TEST_F(AccelerateFile, IsReadAndWrittenAsItWas) {
  const AccelerateConfig config = read_accelerate_config(write(kTwoGpus));
  EXPECT_EQ(config.num_processes, 2);
  EXPECT_EQ(config.distributed_type, "MULTI_GPU");
  EXPECT_EQ(config.gpu_ids, "0,1");
  EXPECT_EQ(accelerate_config_text(config, false), kTwoGpus);
}

TEST_F(AccelerateFile, OfFsdpKeepsItsSections) {
  for (const bool as_json : {false, true}) {
    const std::string sections =
        "distributed_type: FSDP\nnum_processes: 4\nnum_machines: 2\nfsdp_config:\n  fsdp_version: 2\n"
        "  fsdp_reshard_after_forward: true\n  fsdp_transformer_layer_cls_to_wrap: BertLayer,Linear\n"
        "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 2\n";
    const AccelerateConfig config = read_accelerate_config(write(sections));
    const std::string text = accelerate_config_text(config, as_json);
    const AccelerateConfig again = read_accelerate_config(write(text, as_json ? "again.json" : "again.yaml"));
    EXPECT_EQ(again.fsdp_config, config.fsdp_config);
    EXPECT_EQ(again.fsdp_config.at("version"), "2");
    EXPECT_EQ(again.fsdp_config.at("transformer_layer_cls_to_wrap"), "BertLayer,Linear");
    ASSERT_TRUE(again.parallelism);
    EXPECT_EQ(again.parallelism->replicas, 2);
    EXPECT_EQ(again.parallelism->shards, 2);
    if (as_json) continue;
    EXPECT_NE(text.find("\n  fsdp_reshard_after_forward: true\n"), std::string::npos) << text;
    EXPECT_NE(text.find("\n  fsdp_version: 2\n"), std::string::npos) << text;
  }
}

// Written by accelerate itself: see accelerate_files/README.md.
std::string written_by_accelerate(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/tests/tools/accelerate_files/" + name;
}

TEST_F(AccelerateFile, OfAccelerateItselfIsReadAndWrittenByteForByte) {
  struct Written {
    const char* name;
    const char* distributed_type;
    int num_processes;
    int num_machines;
    const char* mixed_precision;
  };
  for (const Written& want :
       {Written{"1.15.0-alone.yaml", "NO", 1, 1, "no"}, Written{"0.29.3-alone.yaml", "NO", 1, 1, "no"},
        Written{"1.15.0-cpu4-bf16.yaml", "MULTI_CPU", 4, 1, "bf16"},
        Written{"0.29.3-cpu4-bf16.yaml", "MULTI_CPU", 4, 1, "bf16"},
        Written{"1.15.0-cpu-two-machines.yaml", "MULTI_CPU", 8, 2, "no"},
        Written{"0.29.3-cpu-two-machines.yaml", "MULTI_CPU", 8, 2, "no"},
        Written{"1.15.0-gpu.yaml", "MULTI_GPU", 2, 1, "fp16"}, Written{"0.29.3-gpu.yaml", "MULTI_GPU", 2, 1, "no"},
        Written{"1.15.0-default-bf16.json", "NO", 1, 1, "bf16"},
        Written{"0.29.3-default-bf16.json", "NO", 1, 1, "bf16"},
        Written{"1.15.0-fsdp1-hybrid.yaml", "FSDP", 4, 2, "no"}, Written{"1.15.0-fsdp2.yaml", "FSDP", 4, 2, "no"},
        Written{"1.15.0-fsdp2-mesh.yaml", "FSDP", 4, 2, "no"}}) {
    const std::string path = written_by_accelerate(want.name);
    const AccelerateConfig config = read_accelerate_config(path);
    EXPECT_EQ(config.distributed_type, want.distributed_type) << want.name;
    EXPECT_EQ(config.num_processes, want.num_processes) << want.name;
    EXPECT_EQ(config.num_machines, want.num_machines) << want.name;
    EXPECT_EQ(config.mixed_precision, want.mixed_precision) << want.name;
    const std::string text = read_file(path);
    const bool is_of_this_version = std::string(want.name).rfind("1.15", 0) == 0 && text.front() != '{' &&
                                    std::string(want.distributed_type) != "FSDP";  // these were not asked for
    if (is_of_this_version) {
      EXPECT_EQ(accelerate_config_text(config, false), text) << want.name;
    }
  }
  const AccelerateConfig two = read_accelerate_config(written_by_accelerate("1.15.0-cpu-two-machines.yaml"));
  EXPECT_EQ(two.machine_rank, 1);
  EXPECT_EQ(two.main_process_ip, "10.0.0.5");
  EXPECT_EQ(two.main_process_port, 29501);
  EXPECT_EQ(two.rdzv_backend, "c10d");
  EXPECT_FALSE(two.same_network);
  EXPECT_TRUE(two.debug);
  EXPECT_TRUE(read_accelerate_config(written_by_accelerate("1.15.0-gpu.yaml")).enable_cpu_affinity);
  EXPECT_THROW(read_accelerate_config(written_by_accelerate("1.15.0-cpu-mpirun.yaml")), Error);
  EXPECT_NE(refusal("distributed_type: MULTI_CPU\nipex_config:\n  ipex: true\n").find("Intel"), std::string::npos);
}

// accelerate starts mpirun if there is a host file, and without one it ignores the number of oneCCL's threads.
TEST_F(AccelerateFile, AsksForMpirunByAHostFileAlone) {
  const std::string cpu = "distributed_type: MULTI_CPU\nnum_processes: 2\n";
  for (const char* section : {"mpirun_config:\n  mpirun_ccl: '1'\n", "mpirun_config:\n  mpirun_ccl: 4\n",
                              "mpirun_config:\n  mpirun_ccl: '1'\n  mpirun_hostfile: null\n",
                              "mpirun_config:\n  mpirun_hostfile: ''\n", "mpirun_config: {}\n"}) {
    EXPECT_EQ(refusal(cpu + section), "accepted") << section;
  }
  for (const char* section :
       {"mpirun_config:\n  mpirun_ccl: '1'\n  mpirun_hostfile: /hostfile\n", "mpirun_config:\n  mpirun_np: 2\n",
        "mpirun_config: /hostfile\n", "mpirun_config:\n  - mpirun_ccl\n"}) {
    EXPECT_NE(refusal(cpu + section).find("asks for mpirun"), std::string::npos) << section;
  }
}

// Each of them was, or could have been, another value after it was written and read.
TEST_F(AccelerateFile, KeepsTextsThatYamlTakesForSomethingElse) {
  for (const char* text : {"host ", " host",           "a\nb",        "a\tb",    "- x",  "? x", "x: y", "x #y", "it's",
                           "\"x\"", "1_000",           "0x1f",        "1:30",    ".inf", "no",  "~",    "=",    "<<",
                           "\x7f",  "h\u00f6he\u2028", "/srv/a b.py", "10.0.0.7"}) {
    AccelerateConfig config = read_accelerate_config(write(kTwoGpus));
    config.main_process_ip = text;
    for (const char* name : {"written.yaml", "written.json"}) {
      const std::string path = folder_.path() + "/" + name;
      write_accelerate_config(config, path);
      EXPECT_EQ(read_accelerate_config(path).main_process_ip, text) << read_file(path);
    }
  }
}

TEST_F(AccelerateFile, IsJsonWhereItsNameSaysSo) {
  AccelerateConfig config;
  config.distributed_type = "MULTI_CPU";
  config.num_machines = 2;
  config.num_processes = 4;
  config.main_process_ip = "10.0.0.1";
  config.main_process_port = 29500;
  const std::string path = folder_.path() + "/new/folder/config.json";
  write_accelerate_config(config, path);
  EXPECT_EQ(read_file(path).front(), '{');
  const AccelerateConfig again = read_accelerate_config(path);
  EXPECT_EQ(again.main_process_ip, "10.0.0.1");
  EXPECT_EQ(again.main_process_port, 29500);
  EXPECT_EQ(again.num_processes, 4);
}

TEST_F(AccelerateFile, MustBeUtf8) {
  const std::string text = refusal("distributed_type: NO\nmain_process_ip: 1\xFB.0.0.1\n");
  EXPECT_NE(text.find("byte \\xfb is not UTF-8"), std::string::npos) << text;
  EXPECT_NE(text.find(":2"), std::string::npos) << text;
  const std::string escape = refusal("distributed_type: NO\nmain_process_ip: \"a\\_b\"\n");
  EXPECT_NE(escape.find("is not UTF-8"), std::string::npos) << escape;
}

TEST_F(AccelerateFile, UnderstandsWhatYamlTakesForSomethingElse) {
  const AccelerateConfig config =
      read_accelerate_config(write("distributed_type: 'NO'\nmixed_precision: no\ngpu_ids: 0\nnum_processes: -1\n"));
  EXPECT_EQ(config.mixed_precision, "no");
  EXPECT_EQ(config.gpu_ids, "0");
  EXPECT_EQ(config.num_processes, -1);
  const AccelerateConfig old =
      read_accelerate_config(write("distributed_type: NO\nfp16: true\ndynamo_backend: 'NO'\n"));
  EXPECT_EQ(old.mixed_precision, "fp16");
}

TEST_F(AccelerateFile, NamesLineAndFixOfWhatDoesNotFit) {
  struct Refused {
    const char* text;
    const char* line;
    const char* says;
  };
  const Refused table[] = {
      {"distributed_type: NO\nnum_proceses: 2\n", ":2", "did you mean 'num_processes'?"},
      {"distributed_type: NO\nwobble: 2\n", ":2", "unknown key 'wobble'"},
      {"debug: false\n", "config.yaml", "there is no distributed_type"},
      {"distributed_type: MULTI_GPU\ndebug: maybe\n", ":2", "write true or false"},
      {"distributed_type: MULTI_GPU\nnum_processes: two\n", ":2", "whole number"},
      {"distributed_type: MULTI_GPU\nnum_processes: 0\n", ":2", "whole number"},
      {"distributed_type: DEEPSPEED\n", ":1", "write FSDP, and fsdp_config"},
      {"distributed_type: XLA\n", ":1", "NO, MULTI_CPU, MULTI_GPU, FSDP"},
      {"distributed_type: MULTI_GPU\nmixed_precision: fp8\n", ":2", "no, fp16, bf16"},
      {"distributed_type: MULTI_GPU\ndeepspeed_config:\n  zero_stage: 2\n", ":3", "DeepSpeed"},
      {"distributed_type: MULTI_GPU\nfsdp_config: {fsdp_version: 2}\n", "config.yaml", "distributed_type: FSDP"},
      {"distributed_type: FSDP\nfsdp_config:\n  fsdp_versio: 2\n", ":3", "did you mean 'fsdp_version'"},
      {"distributed_type: FSDP\nfsdp_config:\n  fsdp_version: [2]\n", ":3", "not a single value"},
      {"distributed_type: FSDP\nfsdp_config: 2\n", ":2", "is not a section"},
      {"distributed_type: FSDP\nparallelism_config:\n  parallelism_config_tp_size: 2\n", ":3", "splits only the data"},
      {"distributed_type: NO\nnum_processes: 2\n", "config.yaml", "MULTI_CPU or MULTI_GPU"},
      {"distributed_type: MULTI_CPU\nnum_processes: 3\nnum_machines: 2\n", "config.yaml", "evenly"},
      {"distributed_type: MULTI_CPU\nmachine_rank: 1\n", "config.yaml", "numbered from 0"},
      {"- a\n- b\n", "config.yaml", "no configuration"},
      {"a: [1\n", "config.yaml:", "not YAML"},
      {"", "config.yaml", "no configuration"},
  };
  for (const Refused& each : table) {
    const std::string text = refusal(each.text);
    EXPECT_NE(text.find(each.says), std::string::npos) << each.text << "\n" << text;
    EXPECT_NE(text.find(each.line), std::string::npos) << each.text << "\n" << text;
  }
}

TEST_F(AccelerateFile, IsNoPipeAndNotEndless) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    try {
      read_accelerate_config(path);
      ADD_FAILURE() << path << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.happened(), path + " is not a regular file");
    }
  }
}

TEST_F(AccelerateFile, IsQuotedInShortAndInPrintableCharacters) {
  const std::string text = refusal("distributed_type: NO\n" + std::string(1000, 'A') + ": 2\n");
  EXPECT_LT(text.size(), 600U);
  const std::string escape = refusal("distributed_type: NO\ndebug: \"\\x1b]0;title\\x07\"\n");
  EXPECT_NE(escape.find("debug is '\\x1b]0;title\\x07'"), std::string::npos) << escape;
  EXPECT_EQ(escape.find('\x1b'), std::string::npos) << escape;
}

std::string answered(const std::string& answers, AccelerateConfig& config) {
  std::istringstream in(answers);
  std::ostringstream out;
  config = ask_config(in, out);
  return out.str();
}

// Equal answers give equal files, byte for byte.
TEST(ConfigQuestions, WriteWhatAccelerateWrites) {
  for (const auto& [name, answers] :
       {std::pair{"1.15.0-alone.yaml", "This machine\nNo distributed training\nno\nno\nno\nall\nno\nno\n"},
        std::pair{"1.15.0-cpu4-bf16.yaml", "This machine\nmulti-CPU\n1\nno\nno\nno\n4\nbf16\n"},
        std::pair{"1.15.0-cpu-two-machines.yaml",
                  "This machine\nmulti-CPU\n2\n1\n10.0.0.5\n29501\nno\nc10d\nyes\nno\nno\n8\nno\n"},
        std::pair{"1.15.0-gpu.yaml", "This machine\nmulti-GPU\n1\nno\nno\nno\nno\nno\n2\n0,1\nyes\nfp16\n"}}) {
    AccelerateConfig config;
    const std::string asked = answered(answers, config);
    EXPECT_EQ(accelerate_config_text(config, false), read_file(written_by_accelerate(name))) << name << "\n" << asked;
  }
}

TEST(ConfigQuestions, AreThoseOfAccelerateInItsOrder) {
  AccelerateConfig config;
  const std::string asked = answered("This machine\nmulti-GPU\n1\nNO\nNO\nNO\nNO\nNO\n2\n0,1\nNO\nno\n", config);
  EXPECT_EQ(accelerate_config_text(config, false), kTwoGpus);
  std::size_t at = 0;
  for (const char* question :
       {"In which compute environment are you running?", "Which type of machine are you using?",
        "How many different machines will you use", "Should distributed operations be checked", "torch dynamo?",
        "DeepSpeed?", "FullyShardedDataParallel?", "Megatron-LM ?", "How many GPU(s) should be used",
        "What GPU(s) (by id)", "numa efficiency?", "Do you wish to use mixed precision?"}) {
    const std::size_t next = asked.find(question, at);
    ASSERT_NE(next, std::string::npos) << question << "\n" << asked;
    at = next;
  }
}

// What `launch` reads, `config` writes: the answers of the files that accelerate wrote.
TEST(ConfigQuestions, WriteFilesForFsdp) {
  const std::string machines = "This machine\nmulti-GPU\n2\n0\n10.0.0.5\n29501\nyes\nno\nno\nno\nyes\n";
  const std::string wrapped = "no\nTRANSFORMER_BASED_WRAP\nno\nBertLayer\n";
  AccelerateConfig config;
  std::string asked = answered(machines + "2\nyes\n" + wrapped + "SHARDED_STATE_DICT\nno\nno\nno\n4\nno\n", config);
  EXPECT_EQ(config.fsdp_config, read_accelerate_config(written_by_accelerate("1.15.0-fsdp2.yaml")).fsdp_config)
      << asked;
  EXPECT_EQ(config.distributed_type, "FSDP");
  EXPECT_EQ(config.num_processes, 4);
  asked = answered(
      machines + "1\nHYBRID_SHARD\n" + wrapped + "BACKWARD_PRE\nSHARDED_STATE_DICT\nno\nyes\nno\nyes\nno\n4\nno\n",
      config);
  EXPECT_EQ(config.fsdp_config, read_accelerate_config(written_by_accelerate("1.15.0-fsdp1-hybrid.yaml")).fsdp_config)
      << asked;
  answered(machines + "2\nyes\n" + wrapped + "SHARDED_STATE_DICT\nno\nno\nyes\n2\n2\n1\n1\n4\nno\n", config);
  ASSERT_TRUE(config.parallelism);
  EXPECT_EQ(config.parallelism->replicas, 2);
  EXPECT_EQ(config.parallelism->shards, 2);
}

// Stage 2 gathers nothing, and a training refuses options of gathering.
TEST(ConfigQuestions, LeaveOutWhatAStageOfFsdpHasNot) {
  AccelerateConfig config;
  const std::string asked = answered(
      "0\nmulti-GPU\n1\nno\nno\nno\nyes\n2\nno\nno\nSIZE_BASED_WRAP\n\nFULL_STATE_DICT\nyes\nno\nno\nno\n2\nno\n",
      config);
  EXPECT_NE(asked.find("every rank loads the model itself"), std::string::npos) << asked;
  EXPECT_EQ(config.distributed_type, "FSDP");
  EXPECT_EQ(config.num_processes, 2);
  EXPECT_EQ(config.fsdp_config.at("reshard_after_forward"), "false");
  EXPECT_EQ(config.fsdp_config.at("auto_wrap_policy"), "NO_WRAP");
  EXPECT_EQ(config.fsdp_config.count("min_num_params"), 0U);
  EXPECT_EQ(asked.find("shards no parameters"), std::string::npos);
}

TEST(ConfigQuestions, TakeDefaultsForEmptyLines) {
  AccelerateConfig config;
  answered("\n\n\n\n\n\n\n\n", config);
  EXPECT_EQ(config.distributed_type, "NO");
  EXPECT_EQ(config.num_processes, 1);
  EXPECT_EQ(config.mixed_precision, "no");
}

TEST(ConfigQuestions, AskAgainWhereAnAnswerDoesNotFit) {
  AccelerateConfig config;
  const std::string asked = answered(
      "1\n0\nmulti-TPU\nmulti-CPU\ntwo\n2\n7\n1\n\n10.0.0.1\n\nperhaps\nno\n1\nno\nyes\nno\nno\n3\n4\nbf16\n", config);
  for (const char* answer :
       {"SageMaker. Please", "one of the numbers", "whole number from 1 to 65536", "whole number from 0 to 1",
        "Please enter a value", "yes or no", "mpirun itself", "multiple of 2"}) {
    EXPECT_NE(asked.find(answer), std::string::npos) << answer << "\n" << asked;
  }
  EXPECT_EQ(config.num_machines, 2);
  EXPECT_EQ(config.machine_rank, 1);
  EXPECT_EQ(config.main_process_ip, "10.0.0.1");
  EXPECT_EQ(config.main_process_port, 29500);
  EXPECT_EQ(config.rdzv_backend, "c10d");
  EXPECT_EQ(config.num_processes, 4);
  EXPECT_EQ(config.mixed_precision, "bf16");
  EXPECT_TRUE(config.use_cpu);
}

TEST(ConfigQuestions, EndWithAnErrorWhereAnswersAreMissing) {
  AccelerateConfig config;
  EXPECT_THROW(answered("\nmulti-CPU\n", config), Error);
}

}  // namespace
}  // namespace lockstep
