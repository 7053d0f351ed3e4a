#include "bench/tables/step_contender.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "bench/measure/bench_folder.h"
#include "bench/measure/worker_program.h"
#include "lockstep/base/error.h"
#include "tools/frame/companion.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

// Python's DistributedDataParallel over Gloo, in one way to run it.
struct PeerRun {
  std::string name;
  std::string system;  // in the table
  bool as_torchrun;    // as torchrun starts it; otherwise with the threads and environment that ours has
  std::string options;
};

const std::vector<PeerRun>& peer_runs() {
  static const std::vector<PeerRun> all = {
      {"pytorch", "pytorch-ddp", false, ""},
      {"pytorch-default", "pytorch-default", true, " --adam default"},
      {"pytorch-compile", "pytorch-compile", false, " --compile"},
      {"pytorch-fsdp2", "pytorch-fsdp2", false, " --wrapper fsdp2"},
      {"huggingface", "huggingface-ddp", false, " --layers huggingface"},
      {"huggingface-default", "huggingface-default", true, " --layers huggingface --adam default"},
      {"huggingface-compile", "huggingface-compile", false, " --layers huggingface --compile"}};
  return all;
}

bool is_of_huggingface(const std::string& peer) { return peer.rfind("huggingface", 0) == 0; }

std::string options(const StepWork& work) {
  // Builds of other ages know fp32 without the flag.
  return fmt::format(" --model {} --batch {} --seq {} --steps {}{}{}", shell_quoted(work.model), work.batch,
                     work.sequence_length, work.steps, work.dtype == "fp32" ? "" : " --dtype " + work.dtype,
                     work.device == "cpu" ? "" : " --device " + work.device);
}

std::string our_command(const std::string& worker, const StepWork& work, int ranks, const std::string& mode) {
  const std::string engine = work.engine.empty() ? "" : " --engine " + shell_quoted(work.engine);
  return run_command(ranks, work.threads) + shell_quoted(worker) + " --mode " + mode + engine + options(work);
}

}  // namespace

StepContender our_contender(const std::string& system, const StepWork& work, int ranks, const std::string& mode) {
  const std::string worker = companion_program("lockstep-step-worker");
  const std::string profile = work.profile ? " --profile" : "";
  return {system, ranks, our_command(worker, work, ranks, mode) + profile, {}, {}, 0, nullptr};
}

StepContender contender_of_build(const std::string& build, const StepWork& work, int ranks, const std::string& mode) {
  const std::filesystem::path folder = std::filesystem::absolute(build).lexically_normal();
  const std::string worker = folder / "bin/lockstep-step-worker";
  if (!std::filesystem::exists(worker)) {
    throw UsageError("there is no program " + worker, "--builds", "name the folder of a build that has the benchmarks");
  }
  return {"lockstep@" + folder.filename().string(), ranks, our_command(worker, work, ranks, mode), {}, {}, 0, nullptr};
}

std::vector<std::string> step_peers() {
  std::vector<std::string> names;
  for (const PeerRun& peer : peer_runs()) names.push_back(peer.name);
  return names;
}

StepContender peer_contender(const std::string& name, const StepWork& work, int ranks) {
  const PeerRun& peer =
      *std::find_if(peer_runs().begin(), peer_runs().end(), [&](const PeerRun& known) { return known.name == name; });
  // Debian's torchrun fails under Python 3.11 without redirection.
  const std::string start = peer.as_torchrun ? fmt::format(
                                                   "{}{} -m torch.distributed.run --standalone --redirects 2 --tee 2 "
                                                   "--nproc_per_node {} ",
                                                   as_the_user_started(), shell_quoted(work.python), ranks)
                                             : run_command(ranks, work.threads) + shell_quoted(work.python) + " ";
  const std::string script = shell_quoted(bench_folder() + "/peers/pytorch_step.py");
  return {peer.system, ranks, start + script + peer.options + options(work), {}, {}, 0, nullptr};
}

void check_step_peers(const std::vector<std::string>& names, const StepWork& work) {
  if (std::filesystem::is_directory(work.model)) {
    throw UsageError("peers do not read the folder " + work.model, "--peer",
                     "name one of the shipped models; lockstep bench trainer compares a fine-tuning of a folder");
  }
  const bool huggingface = std::any_of(names.begin(), names.end(), is_of_huggingface);
  const std::string modules = huggingface ? "torch, transformers" : "torch";
  if (run_shell(shell_quoted(work.python) + " -c 'import " + modules + "' 2>/dev/null").first != 0) {
    throw Error(work.python + " cannot import " + modules, "--peer",
                "install them (scripts/setup --test installs python3-torch), or name an interpreter with --python");
  }
  if (huggingface && work.model.rfind("bert", 0) != 0 && work.model != "gpt2") {
    throw Error("Hugging Face's library has no model " + work.model, "--peer",
                "measure a BERT or gpt2, or compare with pytorch");
  }
}

}  // namespace lockstep
