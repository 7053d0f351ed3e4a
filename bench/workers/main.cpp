#include <cstdio>
#include <string>

#include "bench/workers/workers.h"

int main(int argc, char** argv) {
  const std::string path = argc > 0 ? argv[0] : "";
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name == "lockstep-step-worker") return lockstep::run_step_worker(argc, argv);
  if (name == "lockstep-overlap-worker") return lockstep::run_overlap_worker(argc, argv);
  if (name == "lockstep-plan-worker") return lockstep::run_plan_worker(argc, argv);
  if (name == "lockstep-restart-worker") return lockstep::run_restart_worker(argc, argv);
  if (name == "lockstep-strangers-worker") return lockstep::run_strangers_worker(argc, argv);
  if (name == "lockstep-trainer-worker") return lockstep::run_trainer_worker(argc, argv);
  if (name == "lockstep-wrapper-worker") return lockstep::run_wrapper_worker(argc, argv);
  std::fprintf(stderr, "%s is started by `lockstep bench` and `lockstep plan` under the name of a worker\n",
               path.c_str());
  return 2;
}
