// The companion `lockstep-torch`: the subcommands that need LibTorch. `lockstep` starts it.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "lockstep/base/text/flag_name.h"
#include "tools/frame/command_line.h"
#include "tools/frame/torch_error_text.h"

namespace lockstep {
#define TORCH_FREE(name, summary, example)
#define NEEDS_TORCH(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#define BENCHMARKS(name, summary, example)
#define DISTURBS(name, summary, example)
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS

namespace {

// The short commands, which read and print and join no other process: when run_command_line returns, their output is
// written and their objects are destroyed.
bool is_over_at_once(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  return name == "inspect" || name == "predict";
}

// Ends without the destructors of LibTorch's static objects, which take as long as such a command's own work.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const std::vector<SubcommandEntry> entries{
#define TORCH_FREE(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep"},
#define NEEDS_TORCH(name, summary, example) {with_hyphens(#name), summary, example, make_##name, "lockstep-torch"},
#define BENCHMARKS(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-bench"},
#define DISTURBS(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-chaos"},
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
  };
  const int code = run_command_line(entries, argc, argv, torch_error_text);
#if !defined(__SANITIZE_ADDRESS__)  // the address sanitizer looks for leaks at the end
  if (is_over_at_once(argc, argv)) leave(code);
#endif
  return code;
}
