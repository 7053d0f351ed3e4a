// `lockstep launch`: does what `accelerate launch` does, with its file and flags.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/job.h"
#include "lockstep/launch/plan.h"
#include "tools/accelerate/accelerate_launch.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

void print_settings(const AccelerateLaunch& launch, std::ostream& out) {
  fmt::print(out, "configuration file: {}\n", launch.config_file.empty() ? "none" : launch.config_file);
  for (const LaunchSetting& setting : launch.settings) {
    fmt::print(out, "{:28} {:16} {}\n", setting.name, setting.value.empty() ? "-" : setting.value, setting.origin);
  }
}

class Launch : public Subcommand {
 public:
  void add(CLI::App& app) override {
    add_accelerate_launch_flags(app, flags_);
    show_examples(app, {"lockstep launch ./train --epochs 3", "lockstep launch --num-processes 2 --cpu ./train",
                        "lockstep launch --config-file two-machines.yaml --machine-rank 1 ./train",
                        "lockstep launch --show-config ./train"});
  }

  int run(const CommandStreams& streams) override {
    const AccelerateLaunch launch = resolve_accelerate_launch(flags_);
    if (flags_.show_config) {
      print_settings(launch, streams.out);
      return 0;
    }
    if (launch.flags.command.empty()) {
      throw UsageError("there is no program to run", "command line",
                       "name it after the flags: lockstep launch --num-processes 2 ./train --epochs 3");
    }
    if (!launch.warning.empty()) log_warning("{}", launch.warning);
    const LaunchPlan plan = make_plan(launch.flags);
    const LaunchSetting& processes = launch.setting("num_processes");
    const bool is_found = processes.origin != "flag" && processes.origin != "file";
    if (is_found && !flags_.quiet) {
      fmt::print(streams.err, "`--num-processes` was not given; it is {}: {}\n", processes.value, processes.origin);
    }
    for (const auto& [name, value] : launch.environment) ::setenv(name.c_str(), value.c_str(), 1);
    return run_job(plan);
  }

 private:
  AccelerateLaunchFlags flags_;
};

}  // namespace

std::unique_ptr<Subcommand> make_launch() { return std::make_unique<Launch>(); }

}  // namespace lockstep
