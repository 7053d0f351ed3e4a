// The command `lockstep`. It is not linked with LibTorch, so that it starts in milliseconds and may fork.
#include <iostream>
#include <string>

#include "lockstep/base/text/flag_name.h"
#include "tools/frame/command_line.h"

namespace lockstep {
#define TORCH_FREE(name, summary, example) std::unique_ptr<Subcommand> make_##name();
#define NEEDS_TORCH(name, summary, example)
#define BENCHMARKS(name, summary, example)
#define DISTURBS(name, summary, example)
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
}  // namespace lockstep

// A warm spare of `lockstep train` must wait in lockstep-torch, which has loaded LibTorch, and not here.
extern "C" __attribute__((visibility("default"), used)) const char lockstep_waits_when_ready = 1;

int main(int argc, char** argv) {
  using namespace lockstep;
  // tokenize reads and writes many lines, and nothing here writes by stdio. What asks a person flushes its question.
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  const std::vector<SubcommandEntry> entries{
#define TORCH_FREE(name, summary, example) {with_hyphens(#name), summary, example, make_##name, "lockstep"},
#define NEEDS_TORCH(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-torch"},
#define BENCHMARKS(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-bench"},
#define DISTURBS(name, summary, example) {with_hyphens(#name), summary, example, nullptr, "lockstep-chaos"},
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
  };
  return run_command_line(entries, argc, argv, [](const std::exception& error) { return std::string(error.what()); });
}
