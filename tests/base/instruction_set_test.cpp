#include "lockstep/base/processor/instruction_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "lockstep/base/environment_check.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The kernel's list of what the processor has.
bool kernel_lists(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == flag) return true;
    }
    return false;
  }
  return false;
}

TEST(InstructionSetOfProcessor, IsWhatTheKernelLists) {
  InstructionSet want = InstructionSet::Baseline;
  if (kernel_lists("avx2") && kernel_lists("fma") && kernel_lists("f16c")) {
    const bool wide = kernel_lists("avx512f") && kernel_lists("avx512bw") && kernel_lists("avx512dq");
    want = wide && kernel_lists("avx512vl") ? InstructionSet::Avx512 : InstructionSet::Avx2;
  }
  EXPECT_EQ(processor_instruction_set(), want);
}

// The variable is read once, so each value needs a process of its own.
int exit_code_with(const char* isa) {
  ::setenv("LOCKSTEP_ISA", isa, 1);
  const InstructionSet widest = widest_instruction_set();
  const bool is_last = available_instruction_sets().back() == widest;
  const bool is_first = available_instruction_sets().front() == InstructionSet::Baseline;
  return is_last && is_first ? static_cast<int>(widest) : -1;
}

TEST(InstructionSetOfVariableDeathTest, IsNoWiderThanTheVariableAllows) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto of_processor = static_cast<int>(processor_instruction_set());
  EXPECT_EXIT(std::_Exit(exit_code_with("baseline")), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(exit_code_with("avx2")), ::testing::ExitedWithCode(std::min(1, of_processor)), "");
  EXPECT_EXIT(std::_Exit(exit_code_with("avx512")), ::testing::ExitedWithCode(of_processor), "");
}

TEST(InstructionSetOfVariable, IsRefusedAtTheStartIfItIsUnknown) {
  ::setenv("LOCKSTEP_ISA", "avx1024", 1);
  std::string text = "no error";
  try {
    require_readable_environment();
  } catch (const Error& error) {
    text = error.what();
  }
  ::unsetenv("LOCKSTEP_ISA");
  EXPECT_NE(text.find("LOCKSTEP_ISA is \"avx1024\""), std::string::npos) << text;
  EXPECT_NE(text.find("avx512, avx2 or baseline"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
