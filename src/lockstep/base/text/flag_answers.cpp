// Flags of other programs that have no counterpart here: what to do instead.
#include <algorithm>

#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/flag_synonyms.h"

namespace lockstep {
namespace {

struct Answer {
  const char* of;                   // a flag that the command must have; empty: any command
  std::vector<const char*> starts;  // how the typed flag begins; a whole one ends with '$'
  const char* sentence;
};

const std::vector<Answer>& answers() {
  constexpr const char* kOfLaunch = "--num-processes";
  constexpr const char* kOfRun = "--nproc-per-node";
  constexpr const char* kOfTraining = "--train-file";
  static const std::vector<Answer> all{
      {kOfLaunch,
       {"--multi-gpu$", "--multi-cpu$"},
       "leave it out: each process takes a device of its own, and --num-processes says how many"},
      {kOfLaunch,
       {"--use-fsdp$", "--fsdp-"},
       "its options are in the configuration file, which `lockstep config` writes; `lockstep train` has --fsdp"},
      {"",
       {"--use-deepspeed$", "--deepspeed", "--zero-", "--zero3-", "--offload-"},
       "there is no DeepSpeed here: --fsdp shard_grad_op of `lockstep train` is its stage 2, and full_shard its stage "
       "3; a program calls ddp.fuse(optimizer)"},
      {kOfLaunch, {"--dynamo-", "--use-dynamo"}, "leave it out: it compiles Python, but programs here are C++"},
      {kOfLaunch, {"--use-megatron", "--megatron-"}, "Lockstep splits only the data: leave it out"},
      {kOfLaunch, {"--tpu", "--use-tpu", "--ipex$", "--use-xpu", "--downcast-bf16$"}, "Lockstep runs on CPUs and CUDA"},
      {kOfLaunch, {"--fp16$"}, "write --mixed-precision fp16"},
      {kOfLaunch, {"--bf16$"}, "write --mixed-precision bf16"},
      {kOfLaunch,
       {"--mpirun-"},
       "start the program with mpirun itself: its ranks find each other without a launcher of Lockstep"},
      {kOfRun, {"--use-env$"}, "leave it out: ranks always have their numbers in the environment"},
      {kOfRun, {"--start-method$"}, "leave it out: each rank is a program of its own"},
      {kOfRun, {"--local-addr$"}, "set LOCKSTEP_GLOO_INTERFACE to the network interface that ranks use"},
      {kOfRun,
       {"--event-log-handler$", "--logs-specs$", "--duplicate-std", "--virtual-local-rank$", "--signals-to-handle$"},
       "leave it out: only torchrun has it; --log-dir and --tee write logs"},
      {kOfRun,
       {"--hostfile$", "--host$", "-H$", "--include$", "--machinefile$", "-f$"},
       "each host starts its own launcher, with --nnodes, --node-rank and --master-addr; under Slurm, `lockstep slurm` "
       "writes the script; mpirun starts the program without a launcher"},
      {kOfRun, {"--env$", "-x$", "--export$"}, "leave it out: ranks have the launcher's environment"},
      {kOfTraining,
       {"--device", "--gpu$", "--gpu-id", "--cuda$", "--n-gpu$", "-g$"},
       "each rank takes the GPU of its local rank: CUDA_VISIBLE_DEVICES chooses others, and --use-cpu true takes none"},
      {kOfTraining, {"--early-stop"}, "use --load-best-model-at-end true; a program can add an EarlyStoppingCallback"},
      {kOfTraining,
       {"--lora", "--use-lora", "--use-peft", "--peft", "--load-in-"},
       "all weights are trained, in fp32 or bf16"},
      {kOfTraining, {"--wandb", "--use-wandb"}, "--report-to tensorboard, metrics.jsonl and `lockstep report` show it"},
      {kOfTraining, {"--adafactor$"}, "--optim takes adamw_torch, adamw_torch_fused and sgd"},
      {kOfTraining,
       {"--fsdp-min-num-params$", "--fsdp-transformer-layer-cls-to-wrap$"},
       "write it in --fsdp-config, a JSON object, as min_num_params or transformer_layer_cls_to_wrap"},
      {kOfTraining,
       {"--split-batches$", "--dispatch-batches$"},
       "leave it out: --per-device-train-batch-size is the batch of one rank"},
      {kOfTraining, {"--save-safetensors$"}, "leave it out: weights are always saved as safetensors"},
      {kOfTraining, {"--include-tokens-per-second$"}, "leave it out: metrics.jsonl has samples and updates per second"},
      {kOfTraining,
       {"--sharded-ddp$", "--use-ipex$", "--use-mps", "--tpu-", "--jit-mode-eval$", "--past-index$", "--xpu-",
        "--mp-parameters$", "--torchdynamo$", "--ray-scope$", "--fp16-backend$", "--fp16-opt-level$",
        "--use-legacy-prediction"},
       "leave it out: transformers 5 no longer has it, and it has no counterpart here"},
      {kOfTraining, {"--label-smoothing$"}, "write --label-smoothing-factor"},
      {"",
       {"--verbose$", "-v$", "-vv$", "--log-level$", "--quiet$"},
       "set LOCKSTEP_LOG_LEVEL to debug, info, warning or error"},
  };
  return all;
}

bool begins_as(const std::string& typed, const std::string& start) {
  if (!ends_with(start, "$")) return starts_with(typed, start);
  return typed == start.substr(0, start.size() - 1);
}

}  // namespace

std::string flag_answer(const std::string& typed, const std::vector<std::string>& names) {
  for (const Answer& answer : answers()) {
    const std::string of = answer.of;
    if (!of.empty() && std::find(names.begin(), names.end(), of) == names.end()) continue;
    const bool is_it = std::any_of(answer.starts.begin(), answer.starts.end(),
                                   [&](const char* start) { return begins_as(typed, start); });
    if (is_it) return answer.sentence;
  }
  return "";
}

}  // namespace lockstep
