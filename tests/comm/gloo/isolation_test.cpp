// If LibTorch contains its own Gloo, names of one Gloo must not bind to code of the other.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include "lockstep/comm/factory.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(GlooIsolation, DISABLED_UsesGloo) {
  run_ranks_as_threads(2, [](const Membership& membership) { make_communicator("gloo", membership)->barrier(); });
}

// Runs the test above in a separate process, whose dynamic linker logs its bindings.
void log_bindings(const std::string& output) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LD_DEBUG", "bindings", 1);
    ::setenv("LD_DEBUG_OUTPUT", output.c_str(), 1);
    ::execl("/proc/self/exe", "comm_test", "--gtest_filter=GlooIsolation.DISABLED_UsesGloo",
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
}

enum class Side { Torch, Ours, Neither };

Side side_of(const std::string& file) {
  if (file.find("libtorch") != std::string::npos) return Side::Torch;
  return file.find("gloo") != std::string::npos ? Side::Ours : Side::Neither;
}

TEST(GlooIsolation, NoNameBindsAcrossTheBorder) {
  const TemporaryFolder folder;
  log_bindings(folder / "bindings");
  const std::regex line("binding file (\\S+) \\[\\d+\\] to (\\S+) \\[\\d+\\]: normal symbol `_Z(?:T[VISF])?N?K?4gloo");
  std::set<std::pair<std::string, std::string>> across;
  int inside = 0;
  bool torch_has_gloo = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream log(entry.path());
    for (std::string text; std::getline(log, text);) {
      if (text.find("4gloo") == std::string::npos) continue;
      std::smatch match;
      if (!std::regex_search(text, match, line)) continue;
      const Side from = side_of(match[1]);
      const Side to = side_of(match[2]);
      torch_has_gloo = torch_has_gloo || to == Side::Torch;
      inside += from == Side::Ours && to == Side::Ours ? 1 : 0;
      if (from != to && from != Side::Neither && to != Side::Neither) across.emplace(match[1], match[2]);
    }
  }
  EXPECT_GT(inside, 0) << "the linker's log shows no Gloo at all";
  // A LibTorch without its own Gloo uses the system's, as Lockstep does.
  if (!torch_has_gloo) return;
  for (const auto& [from, to] : across) ADD_FAILURE() << from << " binds a name of Gloo to " << to;
}

}  // namespace
}  // namespace lockstep
