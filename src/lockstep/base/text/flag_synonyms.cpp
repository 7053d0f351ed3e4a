#include "lockstep/base/text/flag_synonyms.h"

#include <algorithm>

#include "lockstep/base/text/nearest_name.h"

namespace lockstep {
namespace {

// What people type who know other programs, and what it may be here: the first that a command has.
struct Meaning {
  std::vector<std::string> typed;
  std::vector<std::string> meant;
};

const std::vector<Meaning>& meanings() {
  static const std::vector<Meaning> all{
      {{"--batch-size", "--per-device-batch-size", "--train-batch-size", "--per-gpu-train-batch-size",
        "--per-gpu-batch-size", "--micro-batch-size", "--batch", "--bs", "-b"},
       {"--per-device-train-batch-size", "--per-device-eval-batch-size", "--batch-size"}},
      {{"--eval-batch-size", "--test-batch-size", "--per-gpu-eval-batch-size", "--valid-batch-size"},
       {"--per-device-eval-batch-size", "--batch-size"}},
      {{"--epochs", "--epoch", "--num-epochs", "--n-epochs", "--max-epochs", "--train-epochs", "--num-train-epoch"},
       {"--num-train-epochs"}},
      {{"--lr", "--base-lr", "--learn-rate", "--init-lr", "--step-size"}, {"--learning-rate"}},
      {{"--steps", "--num-steps", "--train-steps", "--max-train-steps", "--num-train-steps", "--total-steps", "--iters",
        "--iterations", "--max-iters"},
       {"--max-steps"}},
      {{"--wd", "--decay", "--l2"}, {"--weight-decay"}},
      {{"--warmup", "--num-warmup-steps", "--warm-up-steps"}, {"--warmup-steps"}},
      {{"--warmup-proportion", "--warmup-fraction"}, {"--warmup-ratio"}},
      {{"--grad-accum", "--grad-accumulation", "--accumulation-steps", "--accumulate-grad-batches", "--accum",
        "--grad-acc-steps", "--gradient-accumulation", "--update-freq"},
       {"--gradient-accumulation-steps"}},
      {{"--clip", "--grad-clip", "--clip-grad", "--clip-norm", "--clip-grad-norm", "--max-norm", "--gradient-clip-val",
        "--gradient-clipping"},
       {"--max-grad-norm"}},
      {{"--scheduler", "--lr-scheduler", "--lr-schedule", "--schedule"}, {"--lr-scheduler-type"}},
      {{"--optimizer"}, {"--optim"}},
      {{"--mixed-precision", "--amp", "--precision", "--dtype"}, {"--bf16"}},
      {{"--resume", "--resume-from", "--resume-checkpoint"}, {"--resume-from-checkpoint"}},
      {{"--workers", "--num-workers", "-j"}, {"--dataloader-num-workers"}},
      {{"--backend", "--dist-backend"}, {"--ddp-backend"}},
      {{"--random-seed", "--manual-seed"}, {"--seed"}},
      {{"--logging-interval", "--log-interval", "--log-every", "--log-steps"}, {"--logging-steps"}},
      {{"--save-every", "--checkpoint-steps", "--save-interval"}, {"--save-steps"}},
      {{"--eval-every", "--eval-interval"}, {"--eval-steps"}},
      {{"--output", "--out", "--out-dir", "--save-dir", "--save-path", "--outdir", "-o"},
       {"--output-dir", "--output-file", "--output"}},
      {{"--train", "--train-data", "--train-path", "--training-file", "--data", "--data-path", "--data-file",
        "--dataset", "--dataset-name", "--input", "--input-file"},
       {"--train-file", "--validation-file", "--file"}},
      {{"--valid", "--valid-file", "--val-file", "--eval-file", "--dev-file", "--test-data", "--eval-data",
        "--eval-dataset"},
       {"--validation-file"}},
      {{"--model-path", "--model-name", "--model-dir", "--pretrained", "--pretrained-model", "--checkpoint"},
       {"--model"}},
      {{"--seq-len", "--seq-length", "--sequence-length", "--max-len", "--max-sequence-length", "--context-length",
        "--ctx-len"},
       {"--max-length"}},
      {{"--text", "--text-field", "--text-col", "--input-column"}, {"--text-column"}},
      {{"--label", "--labels", "--label-field", "--label-col", "--target", "--target-column"}, {"--label-column"}},
      {{"--sep", "--separator", "--column-delimiter"}, {"--delimiter"}},
      {{"--quotechar", "--quote", "--no-quotes"}, {"--quoting"}},
      {{"--max-tokens", "--new-tokens", "--num-tokens"}, {"--max-new-tokens"}},
      {{"--num-gpus", "--gpus", "--ngpus", "--ngpus-per-node"},
       {"--nproc-per-node", "--num-processes", "--gpus-per-node"}},
      {{"-n", "-np", "--np", "--nproc", "--nprocs", "--num-procs", "--num-processes", "--processes", "--world-size",
        "--gpus-per-node", "--ranks", "--ntasks"},
       {"--nproc-per-node", "--num-processes", "--ntasks-per-node"}},
      {{"--nodes", "--num-nodes", "--num-machines", "--hosts", "-N"}, {"--nnodes", "--num-machines", "--nodes"}},
      {{"--machine-rank", "--rank", "--node-id"}, {"--node-rank", "--machine-rank"}},
      {{"--master-address", "--master", "--main-process-ip", "--head-node-ip"}, {"--master-addr", "--main-process-ip"}},
      {{"--numa-binding", "--bind-to", "--cpu-bind", "--numa", "--affinity"}, {"--cpu-affinity"}},
      {{"--restarts", "--max-retries", "--retries"}, {"--max-restarts"}},
      {{"--config-yaml", "--yaml", "--args-file"}, {"--config", "--config-file"}},
      {{"--port", "--main-process-port"}, {"--master-port", "--main-process-port"}},
  };
  return all;
}

bool holds(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string meant_by(const std::vector<Meaning>& all, const std::string& typed, const std::vector<std::string>& names) {
  for (const Meaning& meaning : all) {
    if (!holds(meaning.typed, typed)) continue;
    for (const std::string& meant : meaning.meant) {
      if (holds(names, meant)) return meant;
    }
  }
  return "";
}

}  // namespace

std::string flag_synonym(const std::string& typed, const std::vector<std::string>& names) {
  return meant_by(meanings(), typed, names);
}

std::string subcommand_synonym(const std::string& typed, const std::vector<std::string>& names) {
  static const std::vector<Meaning> all{
      {{"torchrun", "mpirun", "horovodrun", "srun", "start", "torch.distributed.run"}, {"run"}},
      {{"accelerate"}, {"launch"}},
      {{"sbatch"}, {"slurm"}},
      {{"finetune", "fine-tune", "fit", "pretrain", "training"}, {"train"}},
      {{"eval", "validate", "validation", "score"}, {"evaluate"}},
      {{"generate", "infer", "inference", "classify", "embed"}, {"predict"}},
      {{"encode"}, {"tokenize"}},
      {{"download", "get", "pull"}, {"model"}},
      {{"memory", "estimate"}, {"estimate-memory"}},
      {{"benchmark", "perf", "profile"}, {"bench"}},
      {{"info", "collect-env"}, {"env"}},
      {{"check", "diagnose"}, {"doctor"}},
      {{"show", "cat", "head", "ls"}, {"inspect"}},
      {{"merge", "consolidate"}, {"merge-weights"}},
      {{"completion", "complete", "autocomplete", "man"}, {"completions"}},
  };
  return meant_by(all, typed, names);
}

std::string suggest_flag(const std::string& typed, const std::vector<std::string>& names) {
  const std::string synonym = flag_synonym(typed, names);
  if (!synonym.empty()) return "; did you mean '" + synonym + "'?";
  const std::string answer = flag_answer(typed, names);
  return answer.empty() ? did_you_mean(typed, names) : ": " + answer;
}

}  // namespace lockstep
