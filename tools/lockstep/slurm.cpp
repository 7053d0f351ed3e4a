// `lockstep slurm`: writes a script for sbatch that starts a program's ranks, or checks an existing one.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/regular_file.h"
#include "tools/frame/file_findings.h"
#include "tools/frame/subcommand.h"
#include "tools/slurm/sbatch_file.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMostScriptBytes = std::uint64_t{1} << 20;

class Slurm : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--nodes,-N", options_.nodes, "hosts")->capture_default_str();
    app.add_option("--ntasks-per-node", options_.ntasks_per_node, "ranks on each host")->capture_default_str();
    app.add_option("--cpus-per-task,-c", options_.cpus_per_task, "cores of a rank; default: the cluster's");
    app.add_option("--gpus-per-node", options_.gpus_per_node, "GPUs of a host, one for each of its ranks");
    app.add_option("--job-name,-J", options_.job_name, "name of the job; default: the program's");
    app.add_option("--partition,-p", options_.partition, "partition to queue in");
    app.add_option("--account,-A", options_.account, "who pays");
    app.add_option("--time,-t", options_.time, "time limit: minutes, hours:minutes:seconds or days-hours");
    app.add_option("--mem", options_.mem, "memory of a host, as 64G");
    app.add_option("--output,-o", options_.output, "file for what the ranks write; %j is the job's number")
        ->capture_default_str();
    app.add_option("--signal-seconds", options_.signal_seconds,
                   "seconds before the limit at which the ranks get SIGUSR1, on which a Trainer saves; 0: never")
        ->capture_default_str();
    app.add_flag("--requeue,!--no-requeue", options_.requeue, "queue the job again if the training saved and stopped")
        ->default_val(true);
    app.add_option("--file,-f", file_, "file to write the script to; default: standard output");
    app.add_option("--check", check_, "check an existing script instead, and print what is wrong with it");
    app.prefix_command();
    app_ = &app;
    show_examples(app,
                  {"lockstep slurm --nodes 4 --ntasks-per-node 4 --time 2:00:00 --file job.sh -- ./train --epochs 3",
                   "sbatch job.sh",
                   "lockstep slurm --nodes 2 --ntasks-per-node 8 --gpus-per-node 8 -- lockstep train "
                   "--task text-classification --model bert-base --tokenizer reviews-vocab --train-file reviews.csv "
                   "--resume-from-checkpoint true",
                   "lockstep slurm --check job.sh"});
  }

  int run(const CommandStreams& streams) override {
    options_.command = app_->remaining();
    if (!options_.command.empty() && options_.command.front() == "--") options_.command.erase(options_.command.begin());
    if (!check_.empty()) return check(streams.out);
    const std::string script = sbatch_file(options_);
    if (file_.empty()) {
      streams.out << script;
      return 0;
    }
    write_file_atomically(file_, script);
    fmt::print(streams.out, "wrote {}; start the job with: sbatch {}\n", file_, file_);
    return 0;
  }

 private:
  static std::string script_text(const std::string& path) {
    const std::string text = read_file_or_pipe(path, kMostScriptBytes);
    if (text.empty()) throw Error("it is empty", path, "write a script with: lockstep slurm --file FILE -- PROGRAM");
    return text;
  }

  int check(std::ostream& out) const {
    if (!options_.command.empty())
      throw UsageError("--check takes no program", "lockstep slurm", "leave the program out");
    return print_findings(out, check_, check_sbatch_file(script_text(check_)));
  }

  SbatchOptions options_;
  std::string file_;
  std::string check_;
  CLI::App* app_ = nullptr;
};

}  // namespace

std::unique_ptr<Subcommand> make_slurm() { return std::make_unique<Slurm>(); }

}  // namespace lockstep
