// `lockstep test`: does what `accelerate test` does: runs checks on the ranks that the configuration defines.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <sys/wait.h>

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "tools/frame/companion.h"
#include "tools/frame/shell.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/self_test.h"

namespace lockstep {
namespace {

class Test : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--config-file", config_file_,
                   "Accelerate's configuration; default: the one that lockstep config wrote");
    app.add_option("--num-processes", processes_, "number of ranks, in place of the file's")
        ->check(CLI::PositiveNumber);
    app.add_flag("--cpu", cpu_, "use no GPUs, whatever the file says");
    app.add_flag("--as-rank", as_rank_, "one rank of the test")->group("");
    show_examples(
        app, {"lockstep test", "lockstep test --config-file two-ranks.yaml", "lockstep test --num-processes 2 --cpu"});
  }

  int run(const CommandStreams& streams) override {
    if (as_rank_) {
      run_self_test();
      if (is_initialized()) destroy_process_group();
      return 0;
    }
    const std::string command = launch_command();
    fmt::print(streams.out, "Running:  {}\n", command);
    streams.out.flush();
    const int status = std::system(command.c_str());
    if (status == -1) throw Error("cannot start a shell: " + errno_text(errno), command, "check limits on processes");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 0) fmt::print(streams.out, "Test is a success! You are ready for your distributed training!\n");
    return code;
  }

 private:
  std::string launch_command() const {
    const std::string program = shell_quoted(companion_program("lockstep"));
    std::string command = program + " launch";
    if (!config_file_.empty()) command += " --config-file " + shell_quoted(config_file_);
    if (processes_ > 0) command += fmt::format(" --num-processes {}", processes_);
    if (cpu_) command += " --cpu";
    return command + " " + program + " test --as-rank";
  }

  std::string config_file_;
  int processes_ = 0;
  bool cpu_ = false;
  bool as_rank_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_test() { return std::make_unique<Test>(); }

}  // namespace lockstep
