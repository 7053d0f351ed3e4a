#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "tools/slurm/sbatch_file.h"
#include "tools/slurm/shell_commands.h"

namespace lockstep::fuzz {

void run_sbatch(std::string_view bytes) {
  const std::string script(bytes);
  for (const ShellCommand& command : shell_commands(script)) {
    LOCKSTEP_HOLDS(command.line >= 1 && !command.words.empty());
  }
  for (const FileFinding& finding : check_sbatch_file(script)) {
    LOCKSTEP_HOLDS(finding.line >= 0 && !finding.problem.empty());
  }
}

}  // namespace lockstep::fuzz
