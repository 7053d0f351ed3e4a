// The companion `lockstep-torch`: the subcommands that need LibTorch. `lockstep` starts it.
#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tools/lockstep/command_line.h"

namespace lockstep {
#define TORCH_FREE(name, summary, example)
#define NEEDS_TORCH(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#include "tools/lockstep/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH

namespace {

// The text without the C++ stack that LibTorch appends to its messages.
std::string describe(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

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
#define TORCH_FREE(name, summary, example) {with_hyphens(#name), summary, example, nullptr},
#define NEEDS_TORCH(name, summary, example) {with_hyphens(#name), summary, example, make_##name},
#include "tools/lockstep/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
  };
  const int code = run_command_line(entries, "lockstep", argc, argv, describe);
#if !defined(__SANITIZE_ADDRESS__)  // the address sanitizer looks for leaks at the end
  if (is_over_at_once(argc, argv)) leave(code);
#endif
  return code;
}
