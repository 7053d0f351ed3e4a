// The companion `lockstep-chaos`: `lockstep chaos`, which disturbs trainings. `lockstep` starts it.
#include <exception>
#include <string>
#include <vector>

#include "lockstep/base/text/flag_name.h"
#include "tools/frame/command_line.h"

namespace lockstep {
#define TORCH_FREE(name, summary, example)
#define NEEDS_TORCH(name, summary, example)
#define BENCHMARKS(name, summary, example)
#define DISTURBS(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const std::vector<SubcommandEntry> entries{
#define TORCH_FREE(name, summary, example)
#define NEEDS_TORCH(name, summary, example)
#define BENCHMARKS(name, summary, example)
#define DISTURBS(name, summary, example) {with_hyphens(#name), summary, example, make_##name, "lockstep-chaos"},
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
  };
  return run_command_line(entries, argc, argv, [](const std::exception& error) { return std::string(error.what()); });
}
