// Tests that exactly four changed lines turn the plain loop into one for many processes.
#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

// The lines of a program without comments at the top.
Words code_lines(const std::string& file) {
  std::istringstream in(content(std::string(LOCKSTEP_SOURCE_DIR) + "/examples/" + file));
  Words lines;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("//", 0) != 0) lines.push_back(line);
  }
  return lines;
}

// The number after "Loss: " of each line that a program wrote, by "Step [".
std::multimap<std::string, double> losses(const std::string& out) {
  std::multimap<std::string, double> found;
  const std::regex pattern("(Epoch \\[[0-9]+/[0-9]+\\], Step \\[[0-9]+/[0-9]+\\]), Loss: ([0-9.]+)\n");
  for (std::sregex_iterator it(out.begin(), out.end(), pattern), end; it != end; ++it) {
    found.emplace((*it)[1], std::stod((*it)[2]));
  }
  return found;
}

TEST(AccelerateMnist, IsThePlainLoopButForFourLines) {
  const Words plain = code_lines("mnist.cpp");
  const Words accelerated = code_lines("accelerate_mnist.cpp");
  int only_accelerated = 0;
  for (const std::string& line : accelerated) {
    const bool is_changed = std::find(plain.begin(), plain.end(), line) == plain.end();
    only_accelerated += is_changed ? 1 : 0;
    if (is_changed) {
      EXPECT_TRUE(has(line, "ccelerator")) << line;
    }
  }
  EXPECT_EQ(only_accelerated, 4);
  EXPECT_EQ(accelerated.size(), plain.size() + 2);  // two lines are new, two replace others
}

TEST(AccelerateMnist, StartsAsManyProcessesAsWereConfigured) {
  const TemporaryFolder folder;
  const ProgramEnd digits = run_program(
      {kBin + "/lockstep", "data", "digits", "--output", folder / "digits", "--train", "1000", "--test", "100"});
  ASSERT_EQ(digits.code, 0) << digits.err;
  Changes changes{{"HF_HOME", folder.path()}, {"RANK", {}}, {"WORLD_SIZE", {}}};
  const std::string flags = " --epochs 2 --lr 0.05 --data " + folder / "digits";
  const ProgramEnd alone = run_program(shell(kBin + "/mnist --batch_size 100" + flags), changes);
  EXPECT_EQ(alone.code, 0) << alone.err;
  // Without a configuration the program is a single process.
  const ProgramEnd single = run_program(shell(kBin + "/accelerate_mnist --batch_size 100" + flags), changes);
  EXPECT_EQ(single.code, 0) << single.err;
  EXPECT_EQ(losses(single.out), losses(alone.out)) << single.out;

  const ProgramEnd configured =
      run_program(shell("printf '0\\n1\\n1\\nno\\nno\\nno\\n2\\nno\\n' | " + kBin + "/lockstep config"), changes);
  ASSERT_EQ(configured.code, 0) << configured.err;
  const ProgramEnd both = run_program(shell(kBin + "/accelerate_mnist --batch_size 50" + flags), changes);
  EXPECT_EQ(both.code, 0) << both.err;
  const auto wanted = losses(alone.out);
  const auto found = losses(both.out);
  ASSERT_EQ(wanted.size(), 2U) << alone.out;
  ASSERT_EQ(found.size(), 4U) << both.out;
  for (const auto& wanted_line : wanted) {
    const std::string& step = wanted_line.first;
    const auto [first, last] = found.equal_range(step);
    ASSERT_EQ(std::distance(first, last), 2) << step;  // one from each rank, over its half of the batch
    if (has(step, "[2/2]")) {
      EXPECT_LT(std::max(first->second, std::next(first)->second), 1.0) << step;
    }
  }
}

}  // namespace
}  // namespace lockstep
