// What shells complete behind `lockstep`, and its manual page: written from the commands' own flags.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tools/frame/command_facts.h"
#include "tools/lockstep/completions/shell_scripts.h"

namespace lockstep {
namespace {

const std::vector<CommandFacts>& commands_of_tests() {
  static const std::vector<CommandFacts> commands = facts_of(entries_of_this_process());
  return commands;
}

bool has_program(const std::string& name) {
  return run_program({"sh", "-c", "command -v " + name + " > /dev/null"}).code == 0;
}

// What a shell answers to a script of its own after it has read the completions.
std::string answer_of(const std::string& shell, const std::string& completions, const std::string& script) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "completions", completions);
  write_file_atomically(folder / "script", script);
  const ProgramEnd end = run_program({"sh", "-c", "cd " + folder.path() + " && exec " + shell + " script"});
  EXPECT_EQ(end.err, "");
  EXPECT_EQ(end.code, 0) << end.out;
  return end.out;
}

// What bash offers behind these words, of which the last one is being typed.
std::set<std::string> offered_by_bash(const std::vector<std::string>& words) {
  std::string script = "source completions\nCOMP_WORDS=(";
  for (const std::string& word : words) script += " '" + word + "'";
  script += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) + "\n_lockstep\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  std::istringstream answer(answer_of("bash", bash_completions(commands_of_tests()), script));
  std::set<std::string> offered;
  for (std::string line; std::getline(answer, line);) offered.insert(line);
  offered.erase("");
  return offered;
}

using Offered = std::set<std::string>;

TEST(Completions, OfBashAreSubcommandsFlagsAndChoices) {
  EXPECT_EQ(offered_by_bash({"lockstep", "tr"}), (Offered{"train", "trace"}));
  EXPECT_EQ(offered_by_bash({"lockstep", "config", ""}), (Offered{"default", "update"}));
  EXPECT_EQ(offered_by_bash({"lockstep", "train", "--per-device-t"}), Offered{"--per-device-train-batch-size"});
  EXPECT_EQ(offered_by_bash({"lockstep", "train", "--model", "m", "--save-strategy", ""}),
            (Offered{"no", "steps", "epoch", "best"}));
  EXPECT_EQ(offered_by_bash({"lockstep", "train", "--average", "=", "m"}), (Offered{"macro"}));
  EXPECT_EQ(offered_by_bash({"lockstep", "config", "default", "--mixed-precision", "b"}), Offered{"bf16"});
  EXPECT_EQ(offered_by_bash({"lockstep", "completions", "f"}), Offered{"fish"});
  EXPECT_EQ(offered_by_bash({"lockstep", "train", "--bf16", "t"}), Offered{"true"});
  // Files, which bash finds itself.
  EXPECT_EQ(offered_by_bash({"lockstep", "train", "--train-file", "-"}), Offered{});
  EXPECT_EQ(offered_by_bash({"lockstep", "inspect", "s"}), Offered{});
}

TEST(Completions, BehindTheProgramOfAJobAreItsOwn) {
  EXPECT_EQ(offered_by_bash({"lockstep", "run", "--nnodes", "2", "--nproc"}), Offered{"--nproc-per-node"});
  EXPECT_EQ(offered_by_bash({"lockstep", "run", "--nnodes", "2", "./train", "--nproc"}), Offered{});
  EXPECT_EQ(offered_by_bash({"lockstep", "run", "--nnodes", "=", "2", "--nproc"}), Offered{"--nproc-per-node"});
  EXPECT_EQ(offered_by_bash({"lockstep", "slurm", "--", "./train", "--no"}), Offered{});
}

TEST(Completions, OfFishAreTheSame) {
  if (!has_program("fish")) GTEST_SKIP() << "fish is not installed";
  const auto offered = [](const std::string& line) {
    return answer_of("fish --no-config", fish_completions(commands_of_tests()),
                     "source completions\ncomplete -C '" + line + "' | string replace -r '\\t.*' ''; true\n");
  };
  EXPECT_EQ(offered("lockstep tra"), "trace\ntrain\n");
  EXPECT_EQ(offered("lockstep config "), "default\nupdate\n");
  EXPECT_EQ(offered("lockstep train --save-strategy "), "best\nepoch\nno\nsteps\n");
  EXPECT_EQ(offered("lockstep train --per-device-t"), "--per-device-train-batch-size\n");
}

// A second, because zsh loads its completion system.
TEST(Completions, OfZshAreReadByItsOwnSystem) {
  if (!has_program("zsh")) GTEST_SKIP() << "zsh is not installed";
  const std::string said =
      answer_of("zsh -f", zsh_completions(commands_of_tests()),
                "autoload -Uz compinit; compinit -u -D; source ./completions; print $_comps[lockstep]\n"
                // In place of zsh's function, which needs a line editor: it shows how it is called.
                "_arguments() { print -rl -- $words[1] $CURRENT \"$@\" }\n"
                "words=(lockstep config default --mix); CURRENT=4; _lockstep\n");
  EXPECT_EQ(said.substr(0, said.find("*--help")), "_lockstep\nlockstep\n2\n-S\n") << said;
  EXPECT_TRUE(says(said, "*--mixed-precision=[precision of the training\\: no, fp16 or bf16]:VALUE:(no fp16 bf16)"))
      << said;
}

TEST(Completions, AndTheManualPageHaveEveryFlag) {
  const std::vector<CommandFacts>& commands = commands_of_tests();
  const std::string bash = bash_completions(commands), zsh = zsh_completions(commands),
                    fish = fish_completions(commands), page = manual_page(commands);
  std::size_t flags = 0;
  for (const CommandFacts& command : commands) {
    for (const OptionFacts& option : command.options) {
      for (const std::string& name : option.names) {
        if (name.rfind("--", 0) != 0) continue;
        ++flags;
        std::string in_page = name;
        for (std::size_t at = 0; (at = in_page.find('-', at)) != std::string::npos; at += 2) in_page.insert(at, "\\");
        EXPECT_TRUE(says(bash, name) && says(zsh, name) && says(fish, " -l " + name.substr(2)) && says(page, in_page))
            << command.path << " " << name;
      }
    }
  }
  EXPECT_GT(flags, 300U);
}

TEST(Completions, OfTheManualPageAreSoundForTroff) {
  if (!has_program("groff")) GTEST_SKIP() << "groff is not installed";
  const TemporaryFolder folder;
  write_file_atomically(folder / "lockstep.1", manual_page(commands_of_tests()));
  const ProgramEnd end = run_program({"sh", "-c", "groff -man -Tutf8 -ww -Wbreak " + folder / "lockstep.1"});
  EXPECT_EQ(end.err, "");
  EXPECT_EQ(end.code, 0);
}

TEST(Completions, OfTheManualPageNameWhatAsciiLacks) {
  CommandFacts command;
  command.path = "step";
  command.summary = ".5 µs … - \\n";
  EXPECT_TRUE(says(manual_page({command}), "\n\\&.5 \\[u00B5]s \\[u2026] \\- \\en\n"));
}

TEST(Completions, ProgramsDescribeTheirCommandsToEachOther) {
  const std::vector<CommandFacts>& commands = commands_of_tests();
  const std::vector<CommandFacts> read = facts_in(text_of_facts(commands));
  EXPECT_EQ(text_of_facts(read), text_of_facts(commands));
  EXPECT_THROW(facts_in("[{}]"), Error);
  EXPECT_EQ(run_well({kDescribeCommands}), text_of_facts(commands));
}

TEST(Completions, AreWrittenIntoOneFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_command({"completions"}).code, 2);
  EXPECT_EQ(run_command({"completions", "bash", "--output-dir", folder.path()}).code, 2);
  EXPECT_EQ(run_command({"completions", "--output-dir", folder.path()}).code, 0);
  for (const char* file : {"lockstep", "_lockstep", "lockstep.fish", "lockstep.1"}) {
    // A flag of its companion.
    EXPECT_TRUE(says(read_file(folder / file), "rdzv")) << file;
    EXPECT_TRUE(says(read_file(folder / file), "decay")) << file;
  }
}

}  // namespace
}  // namespace lockstep
