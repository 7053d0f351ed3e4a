// The companion `lockstep-torch`: the subcommands that need LibTorch. `lockstep` hands over to it.
#include <c10/util/Exception.h>

#include <string>

#include "tools/lockstep/command_line.h"

namespace lockstep {
#define TORCH_FREE(name, summary, example)
#define NEEDS_TORCH(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#include "tools/lockstep/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH

namespace {

// Without the C++ stack that LibTorch puts behind its messages.
std::string describe(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
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
  return run_command_line(entries, "lockstep", argc, argv, describe);
}
