// `lockstep run`: starts any program as ranks, with torchrun's flags.
#include "lockstep/launch/flags.h"
#include "lockstep/launch/job.h"
#include "lockstep/launch/plan.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

class Run : public Subcommand {
 public:
  void add(CLI::App& app) override {
    add_launch_flags(app, flags_);
    show_examples(app,
                  {"lockstep run --nproc-per-node 2 ./ddp_mnist --epochs 2",
                   "lockstep run --nproc-per-node auto --max-restarts 3 --log-dir logs --tee 3 ./train",
                   "lockstep run --nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --nproc-per-node 4 ./train",
                   "lockstep run --nnodes 2:8 --rdzv-endpoint 10.0.0.1 --max-restarts 3 --nproc-per-node 4 ./train",
                   "lockstep run --nproc-per-node 2 --max-restarts 3 --warm-spares ./train",
                   "lockstep run --nproc-per-node 2 --trace trace.json --trace-steps 10-20 ./ddp_mnist",
                   "lockstep run --nproc-per-node 2 train.py --lr 0.1"});
  }

  int run(const CommandStreams& /*streams*/) override { return run_job(make_plan(flags_)); }

 private:
  LaunchFlags flags_;
};

}  // namespace

std::unique_ptr<Subcommand> make_run() { return std::make_unique<Run>(); }

}  // namespace lockstep
