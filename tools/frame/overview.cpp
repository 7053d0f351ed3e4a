#include "tools/frame/overview.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text/flag_name.h"

namespace lockstep {
namespace {

// A group's title without a name, or a subcommand's name.
struct OverviewRow {
  const char* title;
  const char* name;
};

constexpr OverviewRow kOverviewRows[] = {
#define GROUP(title) {title, nullptr},
#define TORCH_FREE(name, summary, example) {nullptr, #name},
#define NEEDS_TORCH(name, summary, example) {nullptr, #name},
#define BENCHMARKS(name, summary, example) {nullptr, #name},
#define DISTURBS(name, summary, example) {nullptr, #name},
#include "tools/frame/subcommands.inc"
#undef TORCH_FREE
#undef NEEDS_TORCH
#undef BENCHMARKS
#undef DISTURBS
};

}  // namespace

std::string overview_text(const std::vector<SubcommandEntry>& entries) {
  std::size_t width = 0;
  for (const SubcommandEntry& entry : entries) width = std::max(width, entry.name.size());
  std::string text = "Data-parallel training for C++ on LibTorch.\n\nUsage: lockstep SUBCOMMAND [flags]\n";
  for (const OverviewRow& row : kOverviewRows) {
    if (row.title != nullptr) text += fmt::format("\n{}:\n", row.title);
    if (row.name == nullptr) continue;
    const std::string name = with_hyphens(row.name);
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const auto& each) { return each.name == name; });
    if (entry != entries.end()) text += fmt::format("  {:{}}  {}\n", entry->name, width, entry->summary);
  }
  return text + "\n'lockstep SUBCOMMAND --help' lists its flags and shows examples.\n";
}

}  // namespace lockstep
