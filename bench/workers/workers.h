// The workers: one program, lockstep-bench-worker, which is each of them by the name under which it is started,
// lockstep-NAME-worker. Alone, each would instantiate all of LibTorch's templates once more.
#pragma once

namespace lockstep {

/// The main functions of the workers.
int run_step_worker(int argc, char** argv);
int run_overlap_worker(int argc, char** argv);
int run_plan_worker(int argc, char** argv);
int run_restart_worker(int argc, char** argv);
int run_strangers_worker(int argc, char** argv);
int run_trainer_worker(int argc, char** argv);
int run_wrapper_worker(int argc, char** argv);

}  // namespace lockstep
