// A training's log and report show the flags of the project's own commands with their values.
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <set>
#include <string>
#include <vector>

#include "lockstep/base/text/hidden_secrets.h"
#include "tests/commands/run_command.h"
#include "tools/frame/subcommand.h"

namespace lockstep {

namespace {

void add_flags(const CLI::App& app, std::set<std::string>& flags) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.insert("--" + name);
  }
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; })) add_flags(*inner, flags);
}

TEST(ShownFlags, AreAllThatTheCommandsHaveButThoseOfSecrets) {
  std::set<std::string> flags;
  for (const SubcommandEntry& entry : entries_of_this_process()) {
    if (entry.make == nullptr) continue;
    CLI::App app;
    entry.make()->add(app);
    add_flags(app, flags);
  }
  ASSERT_TRUE(flags.count("--max-new-tokens") == 1 && flags.count("--tokenizer") == 1);
  std::set<std::string> hidden;
  for (const std::string& flag : flags) {
    const std::vector<std::string> after{flag, "value"}, within{flag + "=value"};
    if (with_hidden_secrets(after) != after || with_hidden_secrets(within) != within) hidden.insert(flag);
  }
  // The last one is the name of a Kubernetes Secret. A program of somebody else has secrets behind such a flag.
  const std::set<std::string> want{"--hub-token", "--hub_token", "--secret"};
  EXPECT_EQ(hidden, want);
}

}  // namespace
}  // namespace lockstep
