#include "tools/accelerate/config_questions.h"

#include <fmt/format.h>

#include <ostream>
#include <vector>

#include "tools/accelerate/fsdp_questions.h"
#include "tools/accelerate/questions.h"

namespace lockstep {
namespace {

void ask_machines(Questions& ask, AccelerateConfig& config) {
  config.num_machines = ask.whole(
      "How many different machines will you use (use more than 1 for multi-node training)? [1]: ", 1, 65536, 1);
  if (config.num_machines > 1) {
    config.machine_rank = ask.whole("What is the rank of this machine?: ", 0, config.num_machines - 1, 0);
    config.main_process_ip = ask.required("What is the IP address of the machine that will host the main process?: ");
    config.main_process_port =
        ask.whole("What is the port you will use to communicate with the main process? [29500]: ", 1, 65535, 29500);
    config.same_network = ask.yes_no(
        "Are all the machines on the same local network? Answer `no` if nodes are on the cloud and/or on different "
        "network hosts [YES/no]: ",
        true);
    if (!config.same_network) {
      const std::size_t backend = ask.menu("What rendezvous backend will you use?", {"static", "c10d"});
      config.rdzv_backend = backend == 0 ? "static" : "c10d";
    }
  }
  config.debug = ask.yes_no(
      "Should distributed operations be checked while running for errors? This can avoid timeout issues but will be "
      "slower. [yes/NO]: ");
}

void ask_what_is_not_there(Questions& ask, AccelerateConfig& config) {
  if (config.distributed_type == "MULTI_CPU") {
    ask.must_be_no("Do you want accelerate to launch mpirun? [yes/NO]: ",
                   "Start the program with mpirun itself: it needs no launcher then. Please enter no.");
  }
  ask.must_be_no("Do you wish to optimize your script with torch dynamo?[yes/NO]: ",
                 "That compiles Python code, and there is none here. Please enter no.");
  if (config.use_cpu || config.distributed_type == "MULTI_CPU") return;
  ask.must_be_no("Do you want to use DeepSpeed? [yes/NO]: ",
                 "Lockstep has no DeepSpeed; ddp.fuse(optimizer) shards an optimizer's state. Please enter no.");
  if (config.distributed_type != "MULTI_GPU") return;
  if (ask.yes_no("Do you want to use FullyShardedDataParallel? [yes/NO]: ")) ask_fsdp(ask, config);
  if (config.distributed_type == "FSDP") return;
  ask.must_be_no("Do you want to use Megatron-LM ? [yes/NO]: ",
                 "Lockstep parallelises only over the data. Please enter no.");
}

void ask_processes(Questions& ask, AccelerateConfig& config) {
  if (config.distributed_type == "NO") return;
  const std::string what = config.distributed_type == "MULTI_CPU" ? "processes" : "GPU(s)";
  const std::string question = fmt::format("How many {} should be used for distributed training? [1]: ", what);
  for (;;) {
    config.num_processes = ask.whole(question, 1, 65536, 1);
    if (config.num_processes % config.num_machines == 0) return;
    ask.say(fmt::format(
        "That is the number of processes on all {} machines, which have equally many: please enter a multiple of {}.",
        config.num_machines, config.num_machines));
  }
}

void ask_gpus(Questions& ask, AccelerateConfig& config) {
  const bool has_gpus = config.distributed_type == "MULTI_GPU" || (config.distributed_type == "NO" && !config.use_cpu);
  if (!has_gpus) return;
  config.gpu_ids = ask.text(
      "What GPU(s) (by id) should be used for training on this machine as a comma-separated list? [all]: ", "all");
  config.enable_cpu_affinity =
      ask.yes_no("Would you like to enable numa efficiency? (Currently only supported on NVIDIA hardware). [yes/NO]: ");
}

}  // namespace

AccelerateConfig ask_config(std::istream& in, std::ostream& out) {
  Questions ask(in, out);
  AccelerateConfig config;
  while (ask.menu("In which compute environment are you running?", {"This machine", "AWS (Amazon SageMaker)"}) != 0) {
    out << "Lockstep does not run in SageMaker. Please choose this machine.\n";
  }
  const std::vector<std::string> types{"NO", "MULTI_CPU", "MULTI_GPU"};
  config.distributed_type =
      types[ask.menu("Which type of machine are you using?", {"No distributed training", "multi-CPU", "multi-GPU"})];
  if (config.distributed_type == "NO") {
    config.use_cpu = ask.yes_no(
        "Do you want to run your training on CPU only (even if a GPU / Apple Silicon / Ascend NPU device is "
        "available)? [yes/NO]: ");
  } else {
    ask_machines(ask, config);
  }
  config.use_cpu = config.use_cpu || config.distributed_type == "MULTI_CPU";
  ask_what_is_not_there(ask, config);
  ask_processes(ask, config);
  ask_gpus(ask, config);
  const std::vector<std::string> precisions{"no", "fp16", "bf16"};
  config.mixed_precision = precisions[ask.menu("Do you wish to use mixed precision?", precisions)];
  return config;
}

}  // namespace lockstep
